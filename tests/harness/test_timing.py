import time

from tikhon.harness.timing import Clock, timed


def test_reads_what_went_by():
    clock = Clock()
    time.sleep(0.05)
    wall, cpu = clock.read()
    assert wall >= 0.05
    assert 0.0 < cpu < wall


def test_work_that_a_coarse_clock_misses_still_took_time(monkeypatch):
    monkeypatch.setattr(time, "process_time", lambda: 3.0)
    assert timed(lambda: None, 1).cpu_seconds > 0.0
