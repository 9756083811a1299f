"""The requests of a round and their order, from a seed.

A kind is drawn by its weight, and its subject by Zipf's law; the popular subjects follow from the
seed of the store, the same in each round.
"""

import random

import data
from interactions import KINDS


class Traffic:
    """Draws requests for one store."""

    def __init__(self, options):
        self.seed = options.seed
        self.subjects, self.weights = [], []
        chance = random.Random(options.seed + 3)
        for kind in KINDS:
            subjects = kind.subjects(options)
            chance.shuffle(subjects)
            self.subjects.append(subjects)
            self.weights.append(data.falling(len(subjects), options.zipf))

    def requests(self, number, count):
        """The `count` requests of a round: pairs of a kind's place in `KINDS` and its subject."""
        chance = random.Random(f"{self.seed} {number}")
        places = range(len(KINDS))
        drawn = chance.choices(places, weights=[kind.weight for kind in KINDS], k=count)
        return [
            (place, chance.choices(self.subjects[place], cum_weights=self.weights[place])[0])
            for place in drawn
        ]
