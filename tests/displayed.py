"""Numbers that are displayed beside numbers that are computed again: kinds of runs, the truth, and the comparison.

The truth of a run is what its script makes, with the public interface and scikit-learn alone, from the table: the model
is fitted again, and scores, intervals, weights, paths and predictions follow from it.
"""

import contextlib
import html
import io
import math
import os
import re
from collections import Counter
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import sparse, stats
from sklearn import datasets, metrics, model_selection
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor

import kernelweave as kw

# ---- kinds of runs -------------------------------------------------------------------------------------

#: Settings that make a run short.
SHORT = {"alphas": "5", "cv": 3}


def _sample(frame, n, seed):
    """Some rows, by a name in the first column."""
    found = frame.sample(min(n, len(frame)), random_state=seed).reset_index(drop=True)
    found.insert(0, "sample", [f"s{k:03d}" for k in range(len(found))])
    return found


def _cancer(seed):
    frame = datasets.load_breast_cancer(as_frame=True).frame
    frame["target"] = np.where(frame["target"] == 1, "benign", "malignant")
    return _sample(frame, 130, seed)


def _wine(seed):
    frame = datasets.load_wine(as_frame=True).frame
    frame["target"] = frame["target"].map({0: "Barolo", 1: "Grignolino", 2: "Barbera"})
    return _sample(frame, 110, seed)


def _diabetes(seed):
    return _sample(datasets.load_diabetes(as_frame=True, scaled=False).frame, 120, seed)


def binary(folder, data, seed):
    """Two classes with probabilities, and views."""
    frame = _cancer(seed)
    frame.to_csv(folder / "cells.csv", index=False)
    views = {view: [name for name in frame if view in name] for view in ("mean", "error", "worst")}
    return ["cells.csv"], {"target": "target", "views": views, "probabilities": "platt"}


def classes(folder, data, seed):
    """Several classes."""
    _wine(seed).to_csv(folder / "wine.csv", index=False)
    return ["wine.csv"], {"target": "target", "probabilities": "temperature", "test_size": 0.3}


def regression(folder, data, seed):
    """Numbers, with a kernel for each column."""
    _diabetes(seed).to_csv(folder / "patients.csv", index=False)
    return ["patients.csv"], {"target": "target", "kernels": "rls2"}


def targets(folder, data, seed):
    """Several targets."""
    frame = pd.read_csv(data / "prostate.csv").drop(columns=["train"], errors="ignore")
    _sample(frame, 90, seed).to_csv(folder / "men.csv", index=False)
    return ["men.csv"], {"target": "target,lcavol", "test_size": 0.3}


def path(folder, data, seed):
    """A path with the rule of one standard error."""
    _diabetes(seed + 50).to_csv(folder / "patients.csv", index=False)
    return ["patients.csv"], {
        "target": "target",
        "method": "rls2",
        "kernels": "linear-features",
        "rule": "1se",
    }


def precomputed(folder, data, seed):
    """Kernels that were computed elsewhere."""
    digits = pd.read_csv(data / "mfeat.csv.gz").sample(120, random_state=seed).reset_index(drop=True)
    names = np.array([f"d{k:03d}" for k in range(len(digits))])
    labels = [f"digit {int(y) % 3}" for y in digits["target"]]
    pd.DataFrame({"id": names, "target": labels}).to_csv(folder / "labels.csv", index=False)
    grams = {}
    for view in ("fou", "kar", "zer"):
        X = digits[[c for c in digits if c.startswith(f"{view}_")]].to_numpy()
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        grams[view] = X @ X.T / X.shape[1]
    np.savez(folder / "grams.npz", names=names, **grams)
    return ["labels.csv", "grams.npz"], {"target": "target"}


def missing_views(folder, data, seed):
    """Several tables, of which some lack rows."""
    frame = _cancer(seed + 100)
    means, worst = ([c for c in frame if c.startswith(kind)] for kind in ("mean", "worst"))
    frame[["sample", *means, "target"]].to_csv(folder / "means.csv", index=False)
    frame[["sample", *worst]].iloc[25:].to_csv(folder / "worst.csv", index=False)
    return ["means.csv", "worst.csv"], {"target": "target", "key": "sample", "rows": "all"}


def groups(folder, data, seed):
    """Rows of groups that stay together."""
    frame = _diabetes(seed + 150)
    frame["clinic"] = (frame["age"] // 5).astype(int).map("c{:02d}".format)
    frame.to_csv(folder / "patients.csv", index=False)
    return ["patients.csv"], {"target": "target", "group": "clinic", "test_size": 0.3}


def holdout(folder, data, seed):
    """Held-out rows by a column."""
    frame = _wine(seed + 200)
    frame["part"] = np.where(np.random.default_rng(seed).random(len(frame)) < 0.3, "test", "train")
    frame.to_csv(folder / "wine.csv", index=False)
    return ["wine.csv"], {"target": "target", "holdout": "part", "holdout_values": "test"}


def text(folder, data, seed):
    """Counts of words as a sparse view."""
    with np.load(data / "bbcsport.npz") as found:
        topics, counts = found["y"], sparse.csr_matrix(found["view_seg1"])
    chosen = np.random.default_rng(seed).permutation(len(topics))[:110]
    sparse.save_npz(folder / "words.npz", counts[chosen])
    names = [f"a{k:03d}" for k in range(len(chosen))]
    topics = [f"topic {int(y) % 2}" for y in topics[chosen]]
    pd.DataFrame({"article": names, "target": topics}).to_csv(folder / "topics.csv", index=False)
    return ["topics.csv", "words.npz"], {"target": "target", "drop": "article"}


def nested(folder, data, seed):
    """Outer folds beside held-out rows."""
    _wine(seed + 250).to_csv(folder / "wine.csv", index=False)
    return ["wine.csv"], {"target": "target", "nested": 3}


def evidence(folder, data, seed):
    """What further fits say of the sources."""
    frame = _diabetes(seed + 300)
    frame.to_csv(folder / "patients.csv", index=False)
    views = {"blood": [f"s{k}" for k in range(1, 7)], "body": ["age", "sex", "bmi", "bp"]}
    return ["patients.csv"], {"target": "target", "views": views, "alphas": "4"}


KINDS = {
    one.__name__: one
    for one in (
        *(binary, classes, regression, targets, path, precomputed),
        *(missing_views, groups, holdout, text, nested, evidence),
    )
}
#: Sparse views and precomputed kernels of a kind, by the settings that name them.
FURTHER = {"precomputed": "gram", "text": "view"}

# ---- comparing -----------------------------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:\s?%)?(?![\w])")


class Ledger:
    """Numbers that were compared, by place, and those that differ."""

    def __init__(self):
        self.counts, self.problems = Counter(), []

    def note(self, place, what, shown, value):
        self.problems.append(f"{place}: {what}: shown {shown}, computed {value}")

    def number(self, place, what, shown, value, n=0):
        """A displayed number, as text or as it is, beside that which was computed."""
        self.counts[place] += 1
        value = math.nan if value is None else float(value)
        if shown is None or shown in ("–", "nan", ""):
            if not math.isnan(value):
                self.note(place, what, shown, value)
            return
        if not isinstance(shown, str):
            near = math.isclose(float(shown), value, rel_tol=1e-6, abs_tol=1e-7)
            if not near:
                self.note(place, what, shown, value)
            return
        of = re.fullmatch(r"(\d+) of (\d+)", shown.strip())
        if of:
            shown, value = of[1], value * int(of[2])
        plain = shown.strip().replace("\u202f", "").replace("−", "-").replace(",", "")
        share = plain.endswith("%")
        plain = plain.removesuffix("%").strip()
        digits, _, power = plain.partition("e")
        try:
            read = float(plain)
        except ValueError:
            self.note(place, what, shown, value)
            return
        unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        if "." not in digits and not power and digits.endswith("0") and abs(read) >= 1000:
            unit = 10.0 ** (len(digits) - len(digits.rstrip("0")))
        scale = 0.01 if share else 1.0
        # half a unit of the last digit, and what fits differ by
        if not abs(read * scale - value) <= 0.5 * unit * scale * (1 + 1e-9) + 1e-7 * max(1.0, abs(value)):
            self.note(place, what, shown, value)

    def same(self, place, what, shown, other):
        """A text that has to be the same elsewhere."""
        self.counts[place] += 1
        if shown != other:
            self.note(place, what, repr(shown), repr(other))

    def score(self, place, what, shown, one):
        """A score with its interval, "0.97 (0.91 to 0.99)" or "0.97 (95 % interval 0.91 to 0.99)"."""
        value, _, rest = shown.partition(" (")
        self.number(place, what, value, one[0])
        if rest:
            low, _, high = rest.rstrip(")").removeprefix("95 % interval ").partition(" to ")
            self.number(place, f"{what}, low", low, one[1])
            self.number(place, f"{what}, high", high, one[2])


# ---- the truth -----------------------------------------------------------------------------------------


def _triple(one):
    return one.value, one.low, one.high


class Truth:
    """What the script of a run makes from the table: the model again, and all that follows from it."""

    def __init__(self, script, settings):
        space, here = {}, os.getcwd()
        os.chdir(script.parent)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(script.read_text("utf8"), str(script), "exec"), space)
        finally:
            os.chdir(here)
        self.space, self.settings = space, settings
        self.model, self.train, self.test = space["model"], space["train"], space["test"]
        self.classifier = hasattr(self.model, "classes_")
        self.several = np.ndim(space["y"]) == 2 and np.shape(space["y"])[1] > 1

    def rows(self, places):
        """Some rows as the model takes them."""
        X = self.space["X"]
        return X.iloc[places] if hasattr(X, "iloc") else X[places]

    def y_of(self, places):
        y = self.space["y"]
        return y.iloc[places] if hasattr(y, "iloc") else y[places]

    @cached_property
    def truth(self):
        return np.asarray(self.y_of(self.test))

    @cached_property
    def prediction(self):
        return np.asarray(self.model.predict(self.rows(self.test)))

    @cached_property
    def decision(self):
        return np.asarray(self.model.decision_function(self.rows(self.test))) if self.classifier else None

    @cached_property
    def probability(self):
        return self.model.predict_proba(self.rows(self.test)) if self.classifier else None

    @cached_property
    def held(self):
        """Scores of held-out rows by scikit-learn, with the intervals of the library."""
        if self.several:
            found = [
                self._numbers(self.truth[:, k], self.prediction[:, k]) for k in range(self.truth.shape[1])
            ]
            return {
                name: (float(np.mean([one[name] for one in found])), math.nan, math.nan) for name in found[0]
            }
        made = self._scores(self.truth, self.prediction, self.decision, self.probability)
        ends = self.intervals(self.prediction, self.decision, self.probability)
        return {name: (value, *_triple(ends[name])[1:]) for name, value in made.items()}

    def intervals(self, prediction, decision=None, probability=None):
        """Intervals of scores of the held-out rows."""
        more = {}
        if self.classifier:
            more = {"classes": self.model.classes_, "probability": probability}
            more |= {"decision": decision} if decision is not None and np.ndim(decision) == 1 else {}
        return kw.inspection.score_intervals(self.truth, prediction, groups=self.groups, **more)

    @property
    def groups(self):
        """Groups of the held-out rows, if there are some."""
        return np.asarray(self.space["groups"])[self.test] if "groups" in self.space else None

    def _numbers(self, truth, guess):
        return {
            "R^2": metrics.r2_score(truth, guess),
            "RMSE": metrics.root_mean_squared_error(truth, guess),
            "MAE": metrics.mean_absolute_error(truth, guess),
        }

    def _scores(self, truth, guess, decision, probability):
        if not self.classifier:
            return self._numbers(truth.astype(float), guess.astype(float))
        found = {
            "accuracy": metrics.accuracy_score(truth, guess),
            "balanced accuracy": metrics.balanced_accuracy_score(truth, guess),
            "F1 (macro)": metrics.f1_score(truth, guess, average="macro"),
        }
        names = list(self.model.classes_)
        if decision is not None and decision.ndim == 1 and len(set(truth)) == 2:
            found["ROC AUC"] = metrics.roc_auc_score(truth == names[1], decision)
        if probability is not None:
            found["log loss"] = metrics.log_loss(truth, probability, labels=names)
            member = np.array([truth == name for name in names], dtype=float).T
            # of several classes the mean over rows of the sum over classes, of two that of one class
            squares = np.square(probability - member).sum(axis=1).mean()
            found["Brier score"] = squares / 2 if len(names) == 2 else squares
        return found

    @cached_property
    def nested(self):
        """Scores of the training rows, each predicted by a fit without it."""
        k = self.settings.get("nested", 0)
        if not k:
            return {}
        kind = model_selection.StratifiedKFold if self.classifier else model_selection.KFold
        parts = kind(k, shuffle=True, random_state=self.settings.get("seed", 0))
        X, y = self.rows(self.train), self.y_of(self.train)
        found = kw.inspection.out_of_fold_scores(clone(self.model), X, y, cv=parts)
        of_class = "recall of ", "precision of "
        return {name: _triple(one) for name, one in found.items() if not name.startswith(of_class)}

    @cached_property
    def chosen(self):
        """The name of the score that chose, and its value."""
        results = getattr(self.model, "cv_results_", None)
        if results is None:
            return "", math.nan
        return str(results["score_name"]), float(results["test_score"][self.model.best_index_])

    @cached_property
    def simple(self):
        """The simplest rule: its predictions, and the paired test against it."""
        dummy = DummyClassifier(strategy="most_frequent") if self.classifier else DummyRegressor()
        y = np.asarray(self.y_of(self.train))
        guess = dummy.fit(np.zeros((len(y), 1)), y).predict(np.zeros((len(self.test), 1)))
        compare = kw.inspection.compare_classes if self.classifier else kw.inspection.compare_numbers
        return guess, compare(self.truth, self.prediction, guess, groups=self.groups)

    @property
    def own_weights(self):
        """Whether each of several classes has weights of its own."""
        return self.classifier and np.ndim(self.model.weights_) == 2

    @cached_property
    def views(self):
        return kw.inspection.view_weights(self.model)

    @cached_property
    def kernels(self):
        """Fractions of kernels by label, one for each output."""
        found = kw.inspection.kernel_weights(self.model)
        rows = found.fractions.reshape(len(found.names), -1)
        return dict(zip(map(str, found.names), rows.tolist(), strict=True))

    def path(self, output=None):
        return kw.inspection.regularization_path(self.model, output=output)

    @property
    def parameter(self):
        name = "C" if hasattr(self.model, "C_") else "alpha"
        return name, float(getattr(self.model, f"{name}_"))

    # ---- findings: values and cells of tables by the name of the finding ---------------------------------

    def values_of(self, name, label, one):
        """Value, low and high of an entry of a finding; None where nothing else computes it."""
        none = math.nan, math.nan
        if name == "rows":
            return len(self.train if label == "training" else self.test), *none
        if name == "held out":
            return self.held[label]
        if name == "nested":
            return self.nested[label]
        if name == "folds":
            return self.chosen[1], *none
        if name == "reported":
            return len(self.train if label == "nested" else self.test), *none
        if name == "range":
            return self.parameter[1], *none
        if name == "views":
            return self.views[label], *none
        if name == "kernels":
            return float(np.mean(self.kernels[label])), *none
        if name == "relevance":
            return kw.inspection.column_relevance(self.model)[label], *none
        if name == "simplest":
            guess = self.prediction if label == "this model" else self.simple[0]
            score = "accuracy" if self.classifier else "RMSE"
            return _triple(self.intervals(guess)[score])
        if name == "targets":
            k = list(self.space["y"].columns).index(label) if hasattr(self.space["y"], "columns") else 0
            return self._numbers(self.truth[:, k], self.prediction[:, k])["R^2"], *none
        if name == "classes":
            what, _, of = label.partition(" of ")
            rows = self.truth == of if what == "recall" else self.prediction == of
            hits, n = int((rows & (self.truth == self.prediction)).sum()), int(rows.sum())
            if not n:
                return math.nan, *none
            ends = stats.binomtest(hits, n).proportion_ci(method="wilson")
            return hits / n, ends.low, ends.high
        if name == "calibration":
            of = label.removeprefix("Brier score of ")
            k = [str(one) for one in self.model.classes_].index(of)
            return metrics.brier_score_loss(
                self.truth == self.model.classes_[k], self.probability[:, k]
            ), *none
        if name == "stability":
            found = self.stability
            k = list(found.views).index(label)
            return found.view_weights[k], found.view_low[k], found.view_high[k]
        if name == "omission":
            found = self.omission
            k = list(found.names).index(label)
            return found.loss[k], found.low[k], found.high[k]
        if name == "sources":
            found = self.exchanged
            k = list(found.names).index(label)
            return found.loss[k], found.low[k], found.high[k]
        return None

    #: halves and divisions of the rows in tests
    few = 4

    @cached_property
    def stability(self):
        X, y = self.rows(self.train), self.y_of(self.train)
        return kw.inspection.weight_stability(
            self.model, X, y, n_samples=self.few, random_state=self.settings.get("seed", 0)
        )

    @cached_property
    def omission(self):
        """Divisions as that of the run, which is the first."""
        y, seed = self.space["y"], self.settings.get("seed", 0)
        parts = []
        for k in range(self.few):
            how = {"test_size": self.settings.get("test_size", 0.2), "random_state": seed + k}
            rows = np.arange(len(y))
            train, test = model_selection.train_test_split(
                rows, stratify=y if self.classifier else None, **how
            )
            parts.append((np.sort(train), np.sort(test)))
        return kw.inspection.source_refit_test(
            self.model, self.space["X"], y, sources=[n for n, v in self.views.items() if v > 0], cv=parts
        )

    @cached_property
    def exchanged(self):
        return kw.inspection.source_test(
            self.model, self.rows(self.test), self.truth, random_state=self.settings.get("seed", 0)
        )


# ---- what is displayed ---------------------------------------------------------------------------------


def check_findings(ledger, place, found, truth):
    """Values of findings, and the numbers in their sentences and tables."""
    for name, one in found.items():
        for label, own in one["values"].items():
            expected = truth.values_of(name, label, own)
            if expected is None:
                continue
            for part, value in zip(("value", "low", "high"), expected, strict=True):
                ledger.number(place, f"{name}: {label}, {part}", own[part], value)
        for sentence in one["sentences"]:
            shown = sentence["text"]
            for cited in sentence["numbers"]:
                value = one
                for key in cited["source"]:
                    value = value[key]
                ledger.number(place, f"{name}: {shown}", cited["shown"], value)
                ledger.same(place, f"{name}: {shown}", cited["shown"] in shown, True)
        for table in one["tables"]:
            check_table(ledger, place, name, one, table)


def check_table(ledger, place, name, one, table):
    """Cells of the table of a finding beside its values."""
    if table["name"] in ("scores", "nested"):
        for row in table["rows"]:
            own = one["values"][row[0]]
            for cell, part in zip(row[1:4], ("value", "low", "high"), strict=True):
                ledger.number(place, f"table {table['name']}: {row[0]}", cell, own[part])
    elif table["name"] in ("sources-weights", "simplest", "omission", "sources", "stability-sources"):
        start = {"omission": 2}.get(table["name"], 1)
        for row in table["rows"]:
            own = one["values"][row[0]]
            parts = ("value",) if table["name"] == "sources-weights" else ("value", "low", "high")
            for cell, part in zip(row[start:], parts, strict=False):
                ledger.number(place, f"table {table['name']}: {row[0]}, {part}", cell, own[part])


def tables_of_html(page):
    """Tables of a report by what they are called: rows of texts."""
    found = {}
    for label, inside in re.findall(r'aria-label="([^"]*)"><table>(.*?)</table>', page, re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", inside, re.DOTALL)
        cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]
        found[html.unescape(label)] = [
            [html.unescape(cell) for cell in row if 'class="bar"' not in cell] for row in cells
        ]
    return found


def check_report(ledger, page, found, truth):
    """A report: tiles, sentences, tables and the certificate."""
    from kernelweave.inspection.registry import Finding

    place, plain = "report", html.unescape(page)
    for sentence in (one for own in found.values() for one in own["sentences"]):
        ledger.same(place, sentence["text"], f"<li>{sentence['text']}</li>" in plain, True)
    tables = tables_of_html(page)
    for own in found.values():
        for table in Finding.from_json(own).tables:
            ledger.same(place, table.title, tables[table.title], [table.heads, *table.shown(60)])
    tiles = re.findall(r'<div class="tile"><b>(.*?)</b><span>(.*?)</span>', page)
    for shown, said in tiles:
        label, _, ends = html.unescape(said).partition("; ")
        name, _, where = label.partition(", ")
        if label == "relative duality gap":
            ledger.number(place, label, shown, truth.model.rel_gap_)
            continue
        whole = label if label.startswith(truth.chosen[0]) and "score that chose" in label else ""
        if whole:
            ledger.number(place, label, shown, truth.chosen[1])
            continue
        own = (truth.nested if "nested" in where else truth.held)[name]
        ledger.score(place, label, f"{shown} ({ends})" if ends else shown, own)
    model = truth.model
    heads = {
        "objective": "objective_",
        "gap": "gap_",
        "relative gap": "rel_gap_",
        "alpha": "alpha_",
        "C": "C_",
    }
    for head, cell in re.findall(r'<tr><td>([^<]*)</td><td class="number">([^<]*)</td></tr>', page):
        if head in heads and hasattr(model, heads[head]):
            ledger.number(place, head, cell, getattr(model, heads[head]))


def check_terminal(ledger, said, found, truth):
    """What `kernelweave fit --json` printed: fields, messages and tables."""
    from kernelweave.inspection.registry import Finding

    place = "json"
    for name, one in said["scores"].items():
        value, low, high = truth.held[name]
        ledger.number(place, name, one["value"], value)
        ledger.number(place, f"{name}, low", one.get("low"), low)
        ledger.number(place, f"{name}, high", one.get("high"), high)
    ledger.same(place, "scores", sorted(said["scores"]), sorted(truth.held))
    for name, one in (said.get("scores_out_of_fold") or {}).items():
        for part, value in zip(("value", "low", "high"), truth.nested[name], strict=True):
            ledger.number(place, f"{name}, nested", one.get(part), value)
    if truth.nested:
        ledger.same(
            place, "scores_out_of_fold", sorted(said.get("scores_out_of_fold") or {}), sorted(truth.nested)
        )
    for one in said["sources"]:
        ledger.number(place, f"weight of {one['name']}", one["weight"], truth.views[one["name"]])
    ledger.same(place, "sources", [one["name"] for one in said["sources"]], list(truth.views))
    ledger.number(place, "rows", said["n_training"], len(truth.train))
    ledger.number(place, "rows held out", said["n_held_out"], len(truth.test))
    for name in ("objective", "rel_gap", "n_iter"):
        # what is left of a gap is rounding
        value = getattr(truth.model, f"{name}_")
        close = abs(said["certificate"][name] - value) <= 1e-6 * max(1.0, abs(value))
        ledger.same(place, name, close, True)
    place = "terminal"
    [line] = [one for one in said["messages"] if one.startswith("Held-out: ")] or [""]
    for part in re.split(r", (?=[A-Za-z])", line.removeprefix("Held-out: ")) if line else ():
        name = next(n for n in sorted(truth.held, key=len, reverse=True) if part.startswith(f"{n} "))
        ledger.score(place, part, part.removeprefix(f"{name} "), truth.held[name])
    messages = {one.strip() for one in said["messages"]}
    doubts = {"row names", "giveaways"}
    for name, own in found.items():
        if (name == "kernels" and "answer" in found) or name in doubts:
            continue
        for sentence in own["sentences"]:
            ledger.same(place, sentence["text"], sentence["text"] in messages, True)
        for table in Finding.from_json(own).tables:
            if table.brief:
                [same] = [one for one in said["tables"] if one["title"] == table.title]
                ledger.same(place, table.title, same["rows"], table.shown(12))
    [ends] = [one for one in said["messages"] if "(relative) of the optimum" in one]
    numbers = re.search(r"(alpha|C) (\S+?)[,:].*objective (\S+), within (\S+) \(relative\)", ends)
    ledger.number(place, ends, numbers[2], truth.parameter[1])
    ledger.number(place, ends, numbers[3], truth.model.objective_)
    ledger.number(place, ends, numbers[4], truth.model.rel_gap_)


def check_predictions(ledger, place, frame, truth, names=None):
    """A table of predictions of the held-out rows."""
    several = list(truth.space["y"].columns) if truth.several and hasattr(truth.space["y"], "columns") else []
    columns = {}
    for what, values in (
        ("prediction", truth.prediction),
        ("truth", truth.truth),
        ("decision", truth.decision),
        ("probability", truth.probability),
    ):
        if values is None:
            continue
        if np.ndim(values) == 1:
            columns[what] = values
        else:
            of = several or list(truth.model.classes_)
            columns |= {f"{what} {name}": own for name, own in zip(of, np.asarray(values).T, strict=True)}
    if "low" in frame:
        low, high = truth.model.model_.ends(truth.prediction, 0.9)
        columns |= {"low": low, "high": high}
    for name, values in columns.items():
        if name not in frame:
            if not name.startswith("truth"):
                ledger.note(place, name, "not there", "a column")
            continue
        for shown, value in zip(frame[name], values[: len(frame)], strict=True):
            if isinstance(value, str | np.str_):
                ledger.same(place, name, str(shown), str(value))
            else:
                # pages have four digits
                ledger.number(
                    place, name, shown if place in ("file", "new") else f"{float(shown):.4g}", value
                )
    if names is not None:
        ledger.same(place, "first column", list(map(str, frame.iloc[:, 0])), list(map(str, names)))


# ---- pages ---------------------------------------------------------------------------------------------


def snapshot(user):
    """What a page shows: numbers with names, tables, charts, bars and texts."""
    from nicegui import ElementFilter, ui
    from nicegui.elements.mixins.text_element import TextElement

    def texts(element):
        own = [element.text] if isinstance(element, TextElement) and element.text else []
        return own + [t for slot in element.slots.values() for child in slot.children for t in texts(child)]

    found = {"stats": [], "tables": {}, "charts": {}, "bars": [], "sources": [], "texts": []}
    with user:
        for one in ElementFilter():
            kinds, name = set(one.classes), one.props.get("aria-label")
            if "kw-stat" in kinds:
                value, *notes, label = texts(one)
                found["stats"].append((value, label, "".join(notes).strip()))
            elif "kw-bar" in kinds:
                label, value = texts(one)
                found["bars"].append((label, value))
            elif isinstance(one, ui.echart):
                found["charts"][name] = one.options
            elif isinstance(one, ui.table):
                rows = [[row[c["field"]] for c in one.columns] for row in one.rows]
                found["tables"][name] = ([c["label"] for c in one.columns], rows)
            elif one.tag == "table" and name:
                rows = [
                    [(texts(cell) or [""])[0] for cell in row.slots["default"].children]
                    for part in one.slots["default"].children
                    for row in part.slots["default"].children
                ]
                found["tables"][name] = rows[0], rows[1:]
            elif one.tag == "ul" and "kw-sources" in kinds:
                found["sources"] = [texts(row) for row in one.slots["default"].children]
            elif isinstance(one, TextElement):
                found["texts"].append(one.text)
    return found


def check_understand(ledger, page, found, truth, plain):
    """The page Understand with all its tabs; `plain` gives the label of a kernel by the name that is shown."""
    from kernelweave_app.runs.spec import in_words_of

    place, model = "understand", truth.model

    def label(name):
        return plain.get(name, name)

    simplest = found.get("simplest")
    for value, name, note in page["stats"]:
        head, _, where = name.partition(", ")
        if where == "held out":
            ledger.score(place, name, value, truth.held[head])
        elif where == "nested":
            ledger.score(place, name, value, truth.nested[head])
        elif "the score that chose" in name:
            ledger.number(place, name, value, truth.chosen[1])
            ledger.same(place, name, name, named_choice(truth.chosen[0], [truth]))
        elif simplest and name in simplest["values"]:
            own = truth.values_of("simplest", name, None)
            ledger.score(place, name, f"{value} {note}", own)
        elif name.startswith("kernel") and note.startswith("of "):
            ledger.number(place, name, value, len(truth.kernels))
            ledger.number(place, f"{name}, of", note.removeprefix("of "), model.n_kernels_)
        elif name == truth.parameter[0]:
            ledger.number(place, name, value, truth.parameter[1])
        elif name in ("rows learnt from", "rows held out"):
            ledger.number(place, name, value, len(truth.train if "learnt" in name else truth.test))
        elif name in ("objective", "gap", "relative gap"):
            own = {"objective": "objective_", "gap": "gap_", "relative gap": "rel_gap_"}[name]
            ledger.number(place, name, value, getattr(model, own))
        elif name.endswith("over folds"):
            ledger.number(place, name, value, truth.chosen[1])
        elif name == "df":
            path = truth.path(str(model.classes_[0]) if truth.own_weights else None)
            ledger.number(place, name, value, path.df[path.chosen])
        elif name in ("kernel", "kernels"):
            path = truth.path(str(model.classes_[0]) if truth.own_weights else None)
            ledger.number(place, name, value, int((path.weights[path.chosen] > 0).sum()))
        else:
            ledger.note(place, "a number without a rule", f"{value} {name} {note}", "")
    # sentences are those of the report, without names of options
    for sentence in (one for own in found.values() for one in own["sentences"]):
        ledger.same(place, sentence["text"], in_words_of("form", sentence["text"]) in page["texts"], True)
    _check_sources(ledger, page["sources"], found, truth)
    weights = dict(truth.views)
    if kw.inspection.column_relevance(model):
        weights = None
    path = truth.path(str(model.classes_[0]) if truth.own_weights else None) if page["bars"] else None
    at = dict(zip(map(str, path.names), path.fractions[path.chosen], strict=True)) if path else {}
    for name, value in page["bars"]:
        own = at.get(label(name)) if label(name) in at and name not in (weights or ()) else None
        if own is None and weights is not None:
            own = weights.get(name)
        if own is not None:
            ledger.number(place, f"bar of {name}", value, own)
    for name, (heads, rows) in page["tables"].items():
        _check_page_table(ledger, name, heads, rows, found, truth, label)
    for name, options in page["charts"].items():
        _check_chart(ledger, name or "", options, found, truth, label)


def _check_sources(ledger, shown, found, truth):
    kind = next((k for k in ("omission", "sources", "stability", "views") if k in found), "")
    for name, value, _ in shown:
        own = truth.values_of(kind, "all" if name == "all columns" else name, None)
        if "relevance" in found and name not in found[kind]["values"]:
            own = truth.values_of("relevance", name, None)
        ledger.number("understand", f"source {name}", value, own[0])


def _check_page_table(ledger, name, heads, rows, found, truth, label):
    place = "understand"
    if name == "Scores over folds":
        results = truth.model.cv_results_
        values = results["alpha"] if heads[0] == "alpha" else 1.0 / results["alpha"]
        for k, row in enumerate(rows):
            for cell, own in zip(
                row, (values, results["test_score"], results["std_error_test_score"]), strict=False
            ):
                ledger.number(place, f"{name}, row {k}", cell, own[k])
        chosen = [k for k, row in enumerate(rows) if row[3] == "chosen"]
        ledger.same(place, f"{name}, chosen", chosen, [int(truth.model.best_index_)])
    elif name == "Weights of kernels":
        for row in rows:
            for cell, own in zip(row[1:-1], truth.kernels[label(row[0])], strict=True):
                ledger.number(place, f"weight of {row[0]}", f"{cell:.5f}", own)
        ledger.same(place, "kernels with a weight", len(rows), len(truth.kernels))
    elif name == "Predictions of held-out rows":
        check_predictions(ledger, place, pd.DataFrame(rows, columns=heads), truth)
    elif name.startswith("Confusion matrix"):
        own = metrics.confusion_matrix(truth.truth, truth.prediction, labels=truth.model.classes_)
        ledger.same(place, name, heads[1:], [str(one) for one in truth.model.classes_])
        for row, counts in zip(rows, own, strict=True):
            for cell, count in zip(row[1:], counts, strict=True):
                ledger.number(place, f"{name}, {row[0]}", cell, count)
    elif name == "Held-out rows by class":
        for row in rows:
            recall, precision = (
                truth.values_of("classes", f"{k} of {row[0]}", None) for k in ("recall", "precision")
            )
            for cell, own in zip([*row[2:5], *row[6:9]], [*recall, *precision], strict=True):
                ledger.number(place, f"{name}: {row[0]}", cell, own)
    elif name == "Numbers of the sentences":
        cited = [n for one in found.values() for s in one["sentences"] for n in s["numbers"]]
        shown = sorted(float(row[2]) for row in rows)
        for one, other in zip(shown, sorted(n["value"] for n in cited), strict=True):
            ledger.number(place, name, one, float(f"{other:.6g}"))
    elif name == "Coefficients":
        slopes = dict(zip(truth.model.feature_names_in_, np.ravel(truth.model.coef_), strict=True))
        errors = np.square(truth.truth - truth.prediction)
        slopes["intercept"] = float(np.ravel(truth.model.intercept_)[0])
        slopes["test error"] = errors.mean()
        slopes["std error"] = errors.std(ddof=1) / len(errors) ** 0.5
        for row in rows:
            ledger.number(place, f"coefficient {row[0]}", row[1], slopes[row[0]])
    else:
        ledger.note(place, "a table without a rule", name, "")


def _check_chart(ledger, name, options, found, truth, label):
    place = "understand"
    series = options["series"]
    data = [one.get("data", []) for one in series]
    if name.startswith("Weights of") and "along" in name:
        path = truth.path(str(truth.model.classes_[0]) if truth.own_weights else None)
        names = list(map(str, path.names))
        x = path.alphas if path.Cs is None else path.Cs
        for one in series:
            own = path.fractions[:, names.index(label(one["name"]))]
            for (a, v), b, w in zip(one["data"], x, own, strict=True):
                ledger.number(place, f"{name}, {one['name']}", a, b)
                ledger.number(place, f"{name}, {one['name']}", f"{v:.6f}", w)
    elif " folds against " in name:
        results = truth.model.cv_results_
        for point, own in zip(data[-1], results["test_score"], strict=True):
            ledger.number(place, name, point[1], own)
    elif name.startswith("Kernel weights as bars") and "intervals" not in name:
        names = options["yAxis"]["data"]
        for k, one in enumerate(series):
            for shown, value in zip(names, one["data"], strict=True):
                ledger.number(place, f"{name}: {shown}", f"{value:.6f}", truth.kernels[label(shown)][k])
    elif name == "Contributions of kernels to one row":
        rows = truth.test if len(truth.test) else truth.train
        values = dict(zip(options["yAxis"]["data"], [one["value"] for one in data[0]], strict=True))
        decision = truth.model.decision_function if truth.classifier else truth.model.predict
        own = np.ravel(np.asarray(decision(truth.rows(rows[:1]))))[0]
        ledger.number(place, name, f"{values['sum']:.4f}", own)
        parts = np.asarray(truth.model.kernel_contributions(truth.rows(rows[:1])))[0]
        parts = parts if parts.ndim == 1 else parts[:, 0]
        own = dict(zip(map(str, truth.model.layer_kernel_names_[-1]), parts, strict=True))
        for shown, value in values.items():
            if label(shown) in own:
                ledger.number(place, f"{name}: {shown}", f"{value:.6f}", own[label(shown)])
    elif name in ("Receiver operating characteristic", "Precision against recall"):
        ranked = truth.decision.reshape(len(truth.test), -1)
        names = [str(one) for one in truth.model.classes_][-ranked.shape[1] :]
        score = metrics.roc_auc_score if name.startswith("Receiver") else metrics.average_precision_score
        for one in series:
            shown = re.fullmatch(r"(.*) \((\S+)\)", one["name"])
            if shown:
                k = names.index(shown[1])
                has = truth.truth.astype(str) == names[k]
                ledger.number(place, one["name"], shown[2], score(has, ranked[:, k]))
    elif name in ("True against predicted.", "Residuals against predicted."):
        own = truth.truth if name.startswith("True") else truth.truth - truth.prediction
        # of page rows, which have four digits
        for (x, y), p, t in zip(data[0], truth.prediction, own, strict=True):
            ledger.number(place, name, f"{x:.4f}", p)
            ledger.number(place, name, f"{y:.4f}", t)
    elif name == "Calibration of probabilities":
        for of, one in found["calibration"]["details"].items():
            k = [str(c) for c in truth.model.classes_].index(of)
            shares = truth.probability[:, k]
            n = max(1, min(10, len(shares) // 10))
            own = kw.inspection.calibration(truth.truth == truth.model.classes_[k], shares, n_bins=n)
            for part in ("predicted", "observed", "low", "high", "counts"):
                for shown, value in zip(one[part], getattr(own, part), strict=True):
                    ledger.number(place, f"{name}, {of}, {part}", shown, value)
            shown = next(o["name"] for o in series if o["name"].startswith(f"{of} (Brier"))
            ledger.number(place, f"{name}, {of}", re.search(r"Brier (\S+)\)", shown)[1], own.brier)
    elif name.startswith("Kernel weights as bars"):
        own = truth.stability
        shown = found["stability"]["details"]
        for k, one in enumerate(shown["names"]):
            m = list(map(str, own.names)).index(one)
            for part, values in (("weights", own.weights), ("low", own.low), ("high", own.high)):
                for cell, value in zip(shown[part][k], np.atleast_1d(values[m]), strict=True):
                    ledger.number(place, f"stability of {one}, {part}", cell, value)
    elif " at every iteration" in name or name.startswith("Contributions of kernels to all"):
        pass  # histories of the solver, and the same contributions as colours
    else:
        ledger.note(place, "a chart without a rule", name, "")


def named_choice(score, truths):
    """What the score that chose is called, in the words of the report."""
    parameters = sorted({truth.parameter[0] for truth in truths}, key=str.lower)
    return f"{score}, the score that chose {' or '.join(parameters)}, not an estimate for new rows"


SIZES = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def check_use(ledger, page, truth, every, names, folder):
    """The page Use after the table of the run was predicted; `every` has all its rows, `folder` is that of the run."""
    from kernelweave_app.studio.store import FILES

    place, fitted = "use", type(every)(truth, truth.train).held
    heads, rows = page["tables"]["New predictions"]
    frame = pd.DataFrame(rows, columns=heads)
    check_predictions(ledger, place, frame, every, names)
    for value, name, _ in page["stats"]:
        if name in ("row", "rows"):
            ledger.number(place, name, value, len(names))
        else:
            ledger.number(place, name, value, truth.held[name][0])
    heads, rows = page["tables"].get("Scores", ([], []))
    for name, *cells in rows:
        for head, cell in zip(heads[1:], cells, strict=True):
            if "in the fit" in head:
                ledger.number(place, f"{name}, {head}", cell, fitted[name][0])
            elif "other row" in head:
                ledger.score(place, f"{name}, {head}", cell, truth.held[name])
    for head in heads[1:]:
        rows_of = truth.train if "in the fit" in head else truth.test
        ledger.number(place, head, head.partition(" ")[0], len(rows_of))
    for text in page["texts"]:
        if counted := re.fullmatch(r"(\d+) rows? ha\w+ a remark in the column mind: .*", text):
            ledger.number(place, text, counted[1], (frame["mind"] != "").sum())
        for name, (_, title, about) in FILES.items():
            if title and (written := re.fullmatch(rf"{re.escape(about)} ([\d.]+ )(\w+)", text)):
                size = (folder / name).stat().st_size / SIZES[written[2]]
                ledger.number(place, f"size of {name}", written[1], size)


def check_compare(ledger, page, runs, truths):
    """The page Compare of two runs."""
    place = "compare"
    _, rows = page["tables"]["Scores of the runs"]
    for name, *cells in rows:
        head, _, where = name.partition(", ")
        for cell, truth in zip(cells, truths, strict=True):
            if where in ("held out", "nested"):
                own = truth.held if where == "held out" else truth.nested
                if cell != "–":
                    ledger.score(place, name, cell, own[head])
            elif "the score that chose" in name:
                ledger.number(place, name, cell, truth.chosen[1])
                ledger.same(place, name, name, named_choice(truth.chosen[0], truths))
            elif name.startswith("kernels"):
                ledger.number(place, name, cell, len(truth.kernels))
    for row in page["tables"].get("Paired tests of runs", ([], []))[1]:
        one, two = truths
        if "held-out rows" in row[1]:
            compare = kw.inspection.compare_classes if one.classifier else kw.inspection.compare_numbers
            own = compare(one.truth, one.prediction, two.prediction, groups=one.groups)
        else:
            folds = [
                [
                    v[t.model.best_index_]
                    for k, v in t.model.cv_results_.items()
                    if re.match(r"split\d+_test", k)
                ]
                for t in truths
            ]
            own = kw.inspection.compare_folds(*folds, 1 / (len(folds[0]) - 1))
        low, _, high = row[3].partition(" to ")
        for shown, value in zip((row[2], low, high), (own.difference, own.low, own.high), strict=True):
            ledger.number(place, f"{row[0]}, {row[1]}", shown, value)
        ledger.number(place, f"{row[0]}, p", row[4], own.p_value)
