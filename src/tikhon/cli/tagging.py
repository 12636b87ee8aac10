"""Shared by the ``tikhon tag`` commands: sentences, the features of a model, predictions."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tikhon.cli.console import Bar
from tikhon.cli.fitting import fitted, report
from tikhon.cli.loading import load_model
from tikhon.data.chunk_scores import ChunkCounts, ChunkScores
from tikhon.data.conll import Sentence, read_conll
from tikhon.data.files import ReadingLimits
from tikhon.data.token_windows import FeatureMaker, read_template, window_features
from tikhon.errors import FileFormatError, InputError

MANY = 1000  # sentences whose features are in memory at a time during prediction


def read_labelled(path: Path, bar: Bar, limits: ReadingLimits) -> list[Sentence]:
    """Sentences of at least two columns, the last one being the label."""
    sentences = _read(path, bar, limits)
    if len(sentences[0].columns) < 2:
        raise FileFormatError(f"{path}, line {sentences[0].line}: has 1 column: a line needs a word and, last, a label")
    return sentences


def _read(path: Path, bar: Bar, limits: ReadingLimits) -> list[Sentence]:
    bar.start(path.stat().st_size if path.is_file() else None, f"reading {path.name}")
    return read_conll(path, on_bytes=lambda done, _: bar.to(done, f"reading {path.name}"), limits=limits)


def recipe(template: Path | None, features: str, n_columns: int) -> FeatureMaker:
    """How features are made: by a template file, or by windows, with spelling if there are only words."""
    if template is not None:
        return read_template(template, n_columns)
    return window_features(n_columns, spelling=features == "spelling" or (features == "auto" and n_columns == 1))


def chain_for(*, is_hidden: bool, hidden: int | None, **parameters: Any) -> Any:
    from tikhon import ChainCRF, HiddenUnitCRF

    if is_hidden:
        return HiddenUnitCRF(**parameters if hidden is None else parameters | {"n_hidden": hidden})
    if hidden is not None:
        raise InputError(f"--hidden {hidden}: goes with --model-type hidden")
    return ChainCRF(**parameters)


def fitted_tagger(
    estimator: Any, sentences: Sequence[Sentence], maker: FeatureMaker, source: Path, checkpoint: Path | None, bar: Bar
) -> list[str]:
    """Fit in place and return the distinct warnings."""
    bar.start(len(sentences), "making features")
    X = []
    for sentence in sentences:
        X.append(maker.features(sentence))
        bar.advance(1, "making features")
    y = [list(sentence.columns[-1]) for sentence in sentences]
    messages = fitted(estimator, X, y, source, checkpoint, bar)
    estimator.recipe_ = maker.as_json()
    return messages


def report_tagger(
    estimator: Any, sentences: Sequence[Sentence], model: Path, messages: list[str], as_json: bool
) -> None:
    n_tokens, n_features = sum(map(len, sentences)), len(estimator.feature_names_)
    labels = estimator.classes_.tolist()
    report(
        estimator,
        title=f"{len(sentences)} sentences, {n_tokens} tokens, {len(labels)} labels, {n_features} features, "
        f"{len(estimator.groups_.index)} weights",
        about={"sentences": len(sentences), "tokens": n_tokens, "labels": labels, "features": n_features},
        files={"model": model},
        messages=messages,
        as_json=as_json,
    )


def load_tagger(path: Path, jobs: int | None) -> tuple[Any, FeatureMaker]:
    """The model of a file, and how the features of its tokens are made."""
    from tikhon import ChainCRF, HiddenUnitCRF

    model = load_model(path)
    if not isinstance(model, ChainCRF | HiddenUnitCRF):
        raise InputError(f"{path}: is a {type(model).__name__} model; tikhon tag needs one written by tikhon tag fit")
    if model.recipe_ is None:
        raise InputError(
            f"{path}: does not describe how features are made from columns: it was saved from Python, so predict there as well"
        )
    model.n_jobs = jobs
    try:
        return model, FeatureMaker.from_json(model.recipe_)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None


def read_for_tagger(
    path: Path, maker: FeatureMaker, bar: Bar, limits: ReadingLimits, *, labelled: bool = False
) -> list[Sentence]:
    """Sentences with the columns that the model needs, and with labels if ``labelled``."""
    sentences = _read(path, bar, limits)
    found, needed = len(sentences[0].columns), maker.n_columns + labelled
    if found < needed:
        what = "columns and, after them, the label" if labelled else "columns"
        raise FileFormatError(f"{path}: has {found} columns; the model needs {maker.n_columns} {what}")
    return sentences


def predictions(
    tagger: Any, maker: FeatureMaker, sentences: Sequence[Sentence], *, probability: bool = False
) -> list[list[list[str]]]:
    """Columns to add: labels and, if requested, their probabilities; a list for each sentence."""
    labels: list[list[str]] = []
    shares: list[list[str]] = []
    codes = {label: place for place, label in enumerate(tagger.classes_.tolist())}
    for start in range(0, len(sentences), MANY):
        X = [maker.features(sentence) for sentence in sentences[start : start + MANY]]
        found = tagger.predict(X)
        labels += [list(map(str, one)) for one in found]
        if probability:
            for one, marginals in zip(found, tagger.predict_marginals(X), strict=True):
                shares.append([f"{marginals[t, codes[label]]:.6f}" for t, label in enumerate(one)])
    return [labels, shares] if probability else [labels]


def write_columns(file: IO[bytes], sentences: Sequence[Sentence], columns: Sequence[Sequence[Sequence[str]]]) -> None:
    """Write the sentences with additional columns, separated by tabs."""
    for i, sentence in enumerate(sentences):
        added = [column[i] for column in columns]
        lines = ("\t".join(token) for token in zip(*sentence.columns, *added, strict=True))
        file.write(("\n".join(lines) + "\n\n").encode("utf-8"))


def chunk_rows(scores: ChunkScores) -> list[dict[str, Any]]:
    """A row for each kind of chunk and for all; none if labels do not encode chunks."""

    def row(kind: str, counts: ChunkCounts) -> dict[str, Any]:
        return {
            "chunk": kind,
            "precision %": 100.0 * counts.precision,
            "recall %": 100.0 * counts.recall,
            "F1 %": 100.0 * counts.f1,
            "true": counts.true,
            "predicted": counts.predicted,
        }

    if not any(scores.by_kind):  # labels without "-" have no kind
        return []
    return [*(row(kind, counts) for kind, counts in scores.by_kind.items()), row("all", scores.all)]
