"""Model files of RNAFolder, through commands that are not made for them."""

import pytest

from tikhon import RNAFolder


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "rna.safetensors"
    RNAFolder(tuner=None, strengths=0.1).fit(["GGGAAAUCCC", "CCAAAAGG"], ["(((....)))", "((....))"]).save(path)
    return path


def test_inspect_shows_the_kinds_of_features(run, model):
    shown = run("inspect", model)
    assert shown.code == 0
    assert "RNAFolder: 708 weights" in shown.out
    assert "helix_stacking" in shown.out
    told = run("inspect", model, "--json").json
    assert {row["group"]: row["weights"] for row in told["groups"]}["terminal_mismatch"] == 256


def test_predict_says_what_to_do_instead(run, model, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a\n1\n")
    refused = run("predict", model, table)
    assert refused.code != 0
    assert "is a RNAFolder model, which does not predict rows of a table: use tikhon fold predict" in refused.err
