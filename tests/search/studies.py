"""Studies in storages, for tests: made, added to, and held by another process."""

import subprocess
import sys
from contextlib import contextmanager

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from tikhon.search.storage import opened, quiet

NAME = "search/1"

HOLDER = """
import sys, time
from tikhon.search.storage import opened
with opened(sys.argv[1]):
    print("ready", flush=True)
    time.sleep(600)
"""


def study_in(storage):
    with quiet():
        return optuna.create_study(study_name=NAME, storage=storage, load_if_exists=True)


def add(study, number, text=""):
    study.add_trial(optuna.trial.create_trial(value=float(number), user_attrs={"number": number, "padding": text}))


def numbers(study):
    return [trial.user_attrs["number"] for trial in study.trials]


def written(path, n_trials=3):
    with opened(path) as storage:
        study = study_in(storage)
        for number in range(n_trials):
            add(study, number)
    return path


def assert_goes_on(path, before):
    """The trials are those, and more can be added and read by Optuna alone."""
    with opened(path) as storage:
        study = study_in(storage)
        assert numbers(study) == before
        add(study, 100)
    alone = JournalStorage(JournalFileBackend(str(path)))
    assert numbers(optuna.load_study(study_name=NAME, storage=alone)) == [*before, 100]


@contextmanager
def running(code, path):
    """A process that has opened the storage; killed at the end."""
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
