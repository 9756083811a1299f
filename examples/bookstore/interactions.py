"""The requests of the bookstore's pages: a cache key, the query behind it, and the value.

Each kind takes a subject of its own: a book, a customer, a word, or a subject with a page. The key
names it, the query finds it, and the rows as JSON are the value. A query orders its rows fully, so
a value is the same whenever it is made.
"""

import json
from dataclasses import dataclass
from typing import Callable

import data

# TPC-W's best sellers are those of its latest 3333 orders.
RECENT_ORDERS = 3333
BESTSELLER_PAGES = 10
SUBJECT_PAGES = 15

LISTED = "i_id, i_title, a_fname, a_lname, i_cost::float, left(i_desc, 80)"


@dataclass(frozen=True)
class Kind:
    """A kind of interaction: `weight` is its share of TPC-W's mix, per thousand requests."""

    name: str
    weight: int
    key: str
    query: str
    subjects: Callable


def books(options):
    """A book's number."""
    return [{"id": i} for i in range(options.items)]


def customers(options):
    """A customer's number."""
    return [{"id": c} for c in range(options.customers)]


def pages(count):
    """A subject of the store, and a page of its list."""
    def of(_options):
        return [{"subject": s, "page": p} for p in range(count) for s in data.SUBJECTS]
    return of


def words(options):
    """A word of titles."""
    return [{"word": w} for w in data.title_words(options)]


def names(options):
    """A name of authors."""
    return [{"word": w.lower()} for w in data.surnames(options)]


# The weights are those of TPC-W's shopping mix for six of its fourteen interactions: home 16.00 %,
# search request 20.00 %, product detail 17.00 %, new products and best sellers 5.00 % each, search
# results 17.00 %, a third of it for each way to search. The other eight, a fifth of all requests,
# are the cart, the customer's account and orders.
KINDS = (
    Kind("home", 160, "customer:{id}", """
        SELECT c_id, c_uname, c_fname, c_lname, c_email, c_since::text, c_discount::float, c_data
        FROM customer WHERE c_id = %(id)s""", customers),
    Kind("search request", 200, "related:{id}", f"""
        SELECT {LISTED} FROM item JOIN author ON a_id = i_a_id
        WHERE i_id = ANY ((SELECT i_related FROM item WHERE i_id = %(id)s)::integer[])
        ORDER BY i_id""", books),
    Kind("product detail", 170, "item:{id}", """
        SELECT i_id, i_title, a_fname, a_lname, i_pub_date::text, i_publisher, i_subject, i_desc,
               i_srp::float, i_cost::float, i_stock, i_isbn, i_page, i_backing, a_bio
        FROM item JOIN author ON a_id = i_a_id WHERE i_id = %(id)s""", books),
    Kind("new products", 50, "newproducts:{subject}:{page}", f"""
        SELECT {LISTED}, i_pub_date::text FROM item JOIN author ON a_id = i_a_id
        WHERE i_subject = %(subject)s ORDER BY i_pub_date DESC, i_id
        LIMIT %(length)s OFFSET %(page)s * %(length)s""", pages(SUBJECT_PAGES)),
    Kind("best sellers", 50, "bestsellers:{subject}:{page}", f"""
        SELECT {LISTED}, sum(ol_qty) AS sold
        FROM order_line JOIN item ON i_id = ol_i_id JOIN author ON a_id = i_a_id
        WHERE ol_o_id > (SELECT max(o_id) - {RECENT_ORDERS} FROM orders)
          AND i_subject = %(subject)s
        GROUP BY i_id, i_title, a_fname, a_lname, i_cost, i_desc ORDER BY sold DESC, i_id
        LIMIT %(length)s OFFSET %(page)s * %(length)s""", pages(BESTSELLER_PAGES)),
    Kind("search by subject", 57, "search:subject:{subject}:{page}", f"""
        SELECT {LISTED} FROM item JOIN author ON a_id = i_a_id
        WHERE i_subject = %(subject)s ORDER BY i_title, i_id
        LIMIT %(length)s OFFSET %(page)s * %(length)s""", pages(SUBJECT_PAGES)),
    Kind("search by title", 57, "search:title:{word}", f"""
        SELECT {LISTED} FROM item JOIN author ON a_id = i_a_id
        WHERE i_title ILIKE '%%' || %(word)s || '%%' ORDER BY i_title, i_id
        LIMIT %(length)s""", words),
    Kind("search by author", 57, "search:author:{word}", f"""
        SELECT {LISTED} FROM author JOIN item ON i_a_id = a_id
        WHERE a_lname ILIKE '%%' || %(word)s || '%%' ORDER BY i_title, i_id
        LIMIT %(length)s""", names),
)


def make(session, kind, subject, length):
    """A page's value, from the database."""
    rows = session.execute(kind.query, {**subject, "length": length}).fetchall()
    return json.dumps(rows).encode()
