"""Fixtures for pytest; they are there as soon as the package is installed.

    def test_orders(nagi_database):
        nagi_database.orders.insert_one({"item": "tea"})

One server runs for a session; with pytest-xdist, one for each worker. It starts with the first test that uses it.
"""
import os

import pytest

from . import start


@pytest.fixture(scope="session")
def nagi_options():
    """The options of `nagi_server.start`; override it in conftest.py."""
    return {}


@pytest.fixture(scope="session")
def nagi(nagi_options):
    """The server: `uri`, `port`, `log()`."""
    with start(**nagi_options) as server:
        yield server


@pytest.fixture(scope="session")
def nagi_uri(nagi):
    """The server's connection string, for any driver."""
    return nagi.uri


@pytest.fixture(scope="session")
def nagi_client(nagi_uri):
    """A pymongo.MongoClient of the session."""
    import pymongo

    client = pymongo.MongoClient(nagi_uri)
    yield client
    client.close()


@pytest.fixture
def nagi_database(nagi_client):
    """An empty database of this test, dropped afterwards."""
    name = "test_" + os.urandom(8).hex()
    yield nagi_client[name]
    nagi_client.drop_database(name)
