"""Opening a storage of Optuna: in memory, a journal (a file, the default), SQLite, or a server. Only one process writes."""

import importlib
import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import optuna
import sqlalchemy
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, GrpcStorageProxy, InMemoryStorage, RDBStorage
from sqlalchemy.exc import SQLAlchemyError

from tikhon.errors import InputError
from tikhon.search.claims import claimed
from tikhon.search.journals import journal

Storage: TypeAlias = str | os.PathLike[str] | BaseStorage | None

SERVER_SECONDS = 10.0
_GRPC_PORT = 13000  # Optuna's own default

_verbosity = threading.RLock()


@contextmanager
def opened(storage: Storage) -> Iterator[BaseStorage]:
    """The storage of this name, released at the end; storages made by the caller are passed through.

    storage:
        None: in memory. A path: an Optuna journal, created if there is none. ``sqlite:///FILE``, ``grpc://HOST:PORT`` and other
        addresses: as Optuna reads them.
    """
    if storage is None:
        yield InMemoryStorage()
    elif isinstance(storage, BaseStorage):
        yield storage
    elif isinstance(storage, (str, os.PathLike)):
        with _named(os.fsdecode(storage)) as made:
            yield made
    else:
        raise InputError(
            f"storage is a {type(storage).__name__}: write None (in memory), the name of a file, an address such as "
            "postgresql://..., or a storage of Optuna"
        )


def _named(name: str) -> AbstractContextManager[BaseStorage]:
    if "://" not in name:
        return journal(Path(name))
    return _proxy(name) if name.startswith("grpc://") else _database(name)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Optuna's messages below warnings. For single calls: the level is global, so other threads wait for the block."""
    with _verbosity:
        level = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(max(level, optuna.logging.WARNING))
        try:
            yield
        finally:
            optuna.logging.set_verbosity(level)


@contextmanager
def _database(address: str) -> Iterator[BaseStorage]:
    if address.startswith("redis"):
        raise InputError(
            f"{masked(address)}: for Redis, give a storage of Optuna: JournalStorage(JournalRedisBackend(address))"
        )
    with _naming(address, SQLAlchemyError):
        url = sqlalchemy.engine.make_url(address)
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        with claimed(Path(str(url.database).removeprefix("file:"))), _connected(address) as storage:
            yield storage
    else:
        with _connected(address) as storage:
            yield storage


@contextmanager
def _connected(address: str) -> Iterator[BaseStorage]:
    # RuntimeError: tables of another version of Optuna; the others: braces in an address, which Optuna takes for a template.
    with _naming(address, SQLAlchemyError, StorageInternalError, ImportError, RuntimeError, LookupError, ValueError):
        # Servers close connections that are idle for long, as one is during a fit; a ping before use opens a new one.
        storage = RDBStorage(address, engine_kwargs={"pool_pre_ping": True})
    try:
        with _naming(address, SQLAlchemyError, StorageInternalError):
            yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


@contextmanager
def _proxy(address: str) -> Iterator[BaseStorage]:
    with _naming(address, ImportError, ValueError):
        errors = importlib.import_module("grpc").RpcError
        parts = urlsplit(address)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            proxy = GrpcStorageProxy(host=parts.hostname or "localhost", port=parts.port or _GRPC_PORT)
    try:
        with _naming(address, ConnectionError):
            proxy.wait_server_ready(timeout=SERVER_SECONDS)
        with _naming(address, errors):
            yield proxy
    finally:
        proxy.close()


@contextmanager
def _naming(address: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds into an ``InputError`` with the address."""
    try:
        yield
    except InputError:
        raise
    except errors as error:
        # Without the original traceback, which may show the password.
        cause = _cause(error).replace(address, masked(address))
        if isinstance(error, ImportError):
            message = f"{masked(address)}: what it needs is not installed ({cause}); install it with pip"
        elif isinstance(error, ConnectionError):
            message = f"{masked(address)}: no server answers ({cause}); start one with Optuna's run_grpc_proxy_server"
        else:
            message = f"{masked(address)}: the storage cannot be used ({cause})"
        raise InputError(message) from None


def _cause(error: BaseException) -> str:
    """The first line of the innermost message: that of the driver if there is one."""
    if isinstance(error, (StorageInternalError, ImportError)) and error.__cause__ is not None:
        error = error.__cause__
    error = getattr(error, "orig", None) or error
    return (str(error).splitlines() or [type(error).__name__])[0]


def masked(address: str) -> str:
    """The address without its password."""
    address = re.sub(r"(?<=://)([^:/@]*):.*@", r"\1:***@", address)
    return re.sub(r"(?i)(password|passwd|pwd)=[^&]*", r"\1=***", address)
