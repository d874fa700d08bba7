import sqlite3


def connect():
    db = sqlite3.connect(":memory:")
    db.execute("create table users (name text, mail text)")
    db.executemany("insert into users values (?, ?)", [("Ann", "ann@example.org"), ("O'Brien", "ob@example.org")])
    return db


def find_user(db, name):
    """The user's mail address, or None."""
    row = db.execute(f"select mail from users where name = '{name}'").fetchone()
    return row[0] if row else None
