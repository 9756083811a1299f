"""The settings for running Django's own tests of one of its cache backends, by its own runner,
against a server: `LARDER_BACKEND` and `LARDER_LOCATION` name the backend and the address.

Each test's outcome is a line of its own: `ok NAME`, or `failed NAME: WORDS`.
"""

import os
import unittest

from django.test.runner import DiscoverRunner
from test_sqlite import *  # Django ships it with its runner.

BACKEND = "django.core.cache.backends." + os.environ["LARDER_BACKEND"]
CACHES = {"default": {"BACKEND": BACKEND, "LOCATION": os.environ["LARDER_LOCATION"]}}
TEST_RUNNER = "django_settings.Runner"


class Result(unittest.TextTestResult):
    """Prints outcomes."""

    def addSuccess(self, test):
        super().addSuccess(test)
        print("ok", name(test), flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        fail(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        fail(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            fail(test, err)


def name(test):
    # A failure around a whole class has no name of its own.
    return ".".join(test.id().split(".")[-2:])


def fail(test, err):
    words = f"{err[0].__name__}: {err[1]}".replace("\n", " ")
    print(f"failed {name(test)}: {words}", flush=True)


class Runner(DiscoverRunner):
    """Django's, with these results."""

    def get_resultclass(self):
        return Result
