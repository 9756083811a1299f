"""The bookstore's rows, from a seed: books, authors, customers, and orders.

The proportions are TPC-W's: an author for four items, nine orders for ten customers, up to five
lines in an order, 24 subjects. Words and names are made up from syllables; the frequency of words
in titles follows Zipf's law, and so does that of books in orders.
"""

import random
from datetime import date, datetime, timedelta
from itertools import accumulate
from pathlib import Path

SUBJECTS = (
    "ARTS BIOGRAPHIES BUSINESS CHILDREN COMPUTERS COOKING HEALTH HISTORY HOME HUMOR LITERATURE "
    "MYSTERY NON-FICTION PARENTING POLITICS REFERENCE RELIGION ROMANCE SELF-HELP SCIENCE-NATURE "
    "SCIENCE-FICTION SPORTS YOUTH TRAVEL"
).split()
BACKINGS = ("HARDBACK", "PAPERBACK", "USED", "AUDIO", "LIMITED-EDITION")
TODAY = date(2026, 1, 1)
WORDS = 1000
SURNAMES = 1000
SYLLABLES = [c + v for c in "b d f g k l m n p r s t v w z br st tr".split() for v in "aeiou"]


def word_list(count, seed):
    """Words of two to four syllables, all different; the same for the same seed."""
    chance, words = random.Random(seed), {}
    while len(words) < count:
        words["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4)))] = None
    return list(words)


def title_words(options):
    """The words of titles, the most frequent first."""
    return word_list(WORDS, options.seed)


def surnames(options):
    """The names of authors."""
    return [word.capitalize() for word in word_list(SURNAMES, options.seed + 1)]


def falling(count, exponent):
    """Cumulative weights by Zipf's law, for `random.choices`."""
    return list(accumulate((rank + 1) ** -exponent for rank in range(count)))


def load(session, options):
    """Fills an empty database, and has it gather its statistics."""
    here = Path(__file__).parent
    session.execute((here / "schema.sql").read_text())
    chance = random.Random(options.seed + 2)
    words, names = title_words(options), surnames(options)
    weights = falling(len(words), 0.7)

    def text(shortest, longest):
        length, parts = chance.randint(shortest, longest), []
        while length > 0:
            parts += chance.choices(words, cum_weights=weights, k=10)
            length -= sum(map(len, parts[-10:])) + 10
        return " ".join(parts)

    def copy(table, rows):
        with session.cursor().copy(f"COPY {table} FROM STDIN") as out:
            for row in rows:
                out.write_row(row)

    authors = options.items // 4
    copy("author", (
        (a, chance.choice(names), chance.choice(names), text(125, 500)) for a in range(authors)
    ))
    copy("item", (item(i, authors, chance, words, weights, text, options) for i in
                  range(options.items)))
    copy("customer", (customer(c, chance, names, text) for c in range(options.customers)))
    orders(copy, chance, options)
    session.execute((here / "indexes.sql").read_text())
    session.execute("VACUUM ANALYZE")


def item(number, authors, chance, words, weights, text, options):
    """A book; five others are related to it."""
    title = " ".join(chance.choices(words, cum_weights=weights, k=chance.randint(2, 6)))
    price = chance.randint(100, 9999) / 100
    return (
        number, title.capitalize(), chance.randrange(authors),
        TODAY - timedelta(days=chance.randrange(20_000)), chance.choice(words).capitalize(),
        chance.choice(SUBJECTS), text(200, 2000), chance.sample(range(options.items), 5),
        price, round(price * chance.uniform(0.5, 1.0), 2), chance.randint(10, 30),
        f"{chance.randrange(10**13):013}", chance.randint(20, 9999), chance.choice(BACKINGS),
    )


def customer(number, chance, names, text):
    """A customer, with TPC-W's miscellaneous information."""
    first, last = chance.choice(names), chance.choice(names)
    user = f"{first}{number}".lower()
    return (
        number, user, first, last, f"{user}@example.org",
        TODAY - timedelta(days=chance.randrange(730)), chance.randint(0, 50) / 100, text(100, 500),
    )


def orders(copy, chance, options):
    """Orders with their lines, the latest last. A book's number does not tell how well it sells."""
    count = options.customers * 9 // 10
    books = list(range(options.items))
    chance.shuffle(books)
    sold = falling(options.items, 0.8)
    first = datetime(2025, 11, 1)
    copy("orders", (
        (o, chance.randrange(options.customers), first + timedelta(days=60 * o / count))
        for o in range(count)
    ))
    copy("order_line", (
        (o, line, book, chance.randint(1, 10))
        for o in range(count)
        for line, book in enumerate(
            chance.choices(books, cum_weights=sold, k=chance.randint(1, 5))
        )
    ))
