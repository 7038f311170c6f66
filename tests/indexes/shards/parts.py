"""The documents of an index that tests cut into shards."""

from encoded_forms import drawn_documents

COUNT = 300


def documents(form: str):
    return drawn_documents(form, COUNT, 8, exact=False)
