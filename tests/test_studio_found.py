"""All that the pages about runs show, and what each press changes, compared with what was read once.

Results and evidence are made by hand, so that nothing here depends on a fit.

Modules: `studio/pages/runs`, `studio/pages/understand`, `studio/pages/story`, `studio/pages/use`,
`studio/pages/compare`, `studio/pages/charts`, `studio/pages/pieces`, `studio/pages/naming`.
"""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("nicegui")
pytest.importorskip("psutil")

from kernelweave.inspection.registry import Cited, Finding, Interval, Sentence, Table, Verdict
from kernelweave_app.runs.evidence import ScoresApart
from kernelweave_app.runs.lineage import Lineage, Source
from kernelweave_app.studio import schema
from kernelweave_app.studio.jobs import EvidenceDesk
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.service import Studio
from studio_dump import MORE, ROWS, seen

SCORE, ERROR = "accuracy, held out", "RMSE, held out"


def put(
    studio,
    number,
    name,
    state="done",
    *,
    reason="",
    scores=None,
    summary=None,
    marks=None,
    expected=None,
    **spec,
):
    """A run in the database as if it had been there."""
    run = f"20260101-{number:06d}-abcdef"
    spec = {"target": "y", "cv": 3, **spec}
    request = {"name": name, "data": {"tables": [ROWS]}, "spec": spec, "expected": expected}
    paths, method = {"rows": str(studio.places.files / "rows.csv")}, spec.get("method", "rls2")
    studio.store.add_run(run, name, {**request, "paths": paths, "method": method})
    studio.places.run(run).mkdir()
    studio.store.move(run, ("queued",), "running", started=1000.0 + number)
    for metric, (value, low, high) in (scores or {}).items():
        studio.store.write(run, schema.Metric(name=metric, value=value, n=40, low=low, high=high))
    found = {
        "task": "classification",
        "method": method,
        "n_kernels": 9,
        "n_active": 2 + number,
        "status": "optimal",
        "regularization": "alpha = 0.25",
        "rel_gap": 2e-7,
        "n_training": 32,
        "n_held": 8,
        "seconds": 3.0 + number,
        "fit_seconds": 2.5,
        **(summary or {}),
    }
    if state in ("done", "failed", "cancelled"):
        studio.store.finish(run, state, reason, found if state != "failed" else None)
        finished = 1000.0 + number + 20.0 * number
        studio.store.move(run, (state,), state, finished=finished)
    if marks:
        studio.change_marks(run, **marks)
    return run


BOTH = {SCORE: (0.875, 0.7, 0.95), ERROR: (1.25, 1.0, 1.5)}


def test_list_of_runs(studio, recorded, monkeypatch):
    put(
        studio, 1, "alpha", scores=BOTH, marks={"tags": ["zeta", "first", "x" * 30], "note": "the first\none"}
    )
    scores = {SCORE: (0.5, None, None), "MAE, held out": (2.0, None, None)}
    put(studio, 2, "beta", scores=scores, method="lp", target="blood")
    put(studio, 3, "gamma", "failed", reason="It broke.", marks={"pinned": True})
    going = put(studio, 4, "delta", "running")
    studio.store.progress(going, 3, 12, "fold 2")
    exported, real = [], Studio.runs
    left = {"seconds_left": 90.0}
    monkeypatch.setattr(
        Studio,
        "runs",
        lambda one: [run.model_copy(update=left if run.id == going else {}) for run in real(one)],
    )
    monkeypatch.setattr(Studio, "mlflow_folder", property(lambda _: "FOLDER"), raising=False)
    monkeypatch.setattr(Studio, "export_to_mlflow", lambda _, run: exported.append(run))

    async def visit(page):
        await page.open("/runs", "four runs")
        await page.then("by score", lambda: page.choose("Sort by", "score"))
        await page.then("the smallest error", lambda: page.choose("Score", ERROR))
        await page.then("another error", lambda: page.choose("Score", "MAE, held out"))
        await page.then("the error again", lambda: page.choose("Score", ERROR))
        await page.then("turned", lambda: page.press("Sort the other way round, now ascending"))
        await page.then("by its heading", lambda: page.press("Learner"))
        await page.then("the score again", lambda: page.choose("Score", SCORE))
        await page.then("a limit", lambda: page.choose("Limit", 0.6))
        await page.then("no limit", lambda: page.choose("Limit", None))
        await page.then("of one tag", lambda: page.choose("Tag", "first"))
        await page.then("of none", lambda: page.choose("Search", "zebra"))
        await page.then("all", lambda: (page.choose("Search", ""), page.choose("Tag", ""))[0])
        await page.then("chosen", lambda: page.choose("Choose gamma", True))
        await page.then("no model", lambda: page.press("To MLflow"))
        await page.then("every", lambda: page.choose("Choose all 4 runs", True))
        await page.then("exported", lambda: page.press("To MLflow"))
        await page.then("compared", lambda: page.press("Compare"))
        await page.then("deleted", lambda: page.press("Delete"))
        await page.then("kept", lambda: page.press("Keep them"))
        await page.then("not pinned", lambda: page.press("Unpin gamma"))
        assert exported == ["20260101-000002-abcdef", "20260101-000001-abcdef"]

    seen(studio, recorded, visit)


def test_long_lists_of_runs_have_pages(studio, recorded):
    for k in range(1, 28):
        put(studio, k, f"run {k}", scores={SCORE: (k / 40, None, None)})

    async def visit(page):
        await page.open("/runs")
        await page.then("further", lambda: page.press("Further runs"))
        await page.then("by score", lambda: page.press("Sort the other way round, now descending"))
        for k in range(1, 10):
            page.choose(f"Choose run {k}", True)
        await page.then("nine chosen", lambda: None)
        await page.then("too many", lambda: page.press("Compare"))
        await page.then("deleted", lambda: page.press("Delete"))

    seen(studio, recorded, visit)


def points(*paths):
    found = []
    for stage, output, alphas, weight in paths:
        for k, alpha in enumerate(alphas):
            number, weights = len(found) + 1, {0: weight, 2: weight * k / 10}
            found.append(
                schema.PathPoint(
                    number=number,
                    stage=stage,
                    output=output,
                    alpha=alpha,
                    rel_gap=0.0,
                    n_active=2,
                    weights=weights,
                )
            )
    return found


def test_one_run_while_it_goes_and_when_it_has_ended(studio, recorded, monkeypatch):
    expected = {"seconds": 5.0, "low": 2.0, "high": 8.0, "memory": 10, "sure": "Rough."}
    run = put(studio, 1, "alpha", "running", expected=expected)
    bad = put(studio, 2, "bad", "failed", reason="Column 'a' is gone.", marks={"tags": ["t"], "note": "why"})
    stopped = put(studio, 3, "stopped", "cancelled", reason="Stopped as asked.", scores=BOTH)
    alphas = [10.0, 3.0, 1.0, 0.3, 0.1, 0.03]
    paths = points(("fold 1", "a", alphas, 0.5), ("fold 1", "b", alphas[:5], 0.25))
    found = {run: schema.PathPoints(kernels=["one", "two"], points=paths, parameter="C")}
    none = schema.PathPoints(kernels=[], points=[])
    text = "Traceback (most recent call last)"
    events = [schema.Event(time=1000.0, text="started"), schema.Event(time=1002.5, text="read the tables")]
    monkeypatch.setattr(Studio, "points", lambda _, one, after: found.get(one, none) if not after else none)
    monkeypatch.setattr(
        Studio, "log", lambda _, one: schema.Log(events=events, text=text if one != run else "ok")
    )
    sources = [Source("rows", "rows.csv", "ab" * 32, 2400), Source("more", "more.csv", "", 12)]
    came = Lineage(
        sources,
        {"kernelweave": "0.3", "python": "3"},
        7,
        "kernelweave fit rows.csv",
        "2026-01-01 10:00",
        ["The file of rows has changed."],
    )
    monkeypatch.setattr(Studio, "lineage", lambda _, one: None if one == run else came)
    cancelled = []
    monkeypatch.setattr(Studio, "cancel", lambda _, one: cancelled.append(one))
    real = Studio.run

    def now(self, one):
        # half way, and with a time left
        return real(self, one).model_copy(
            update={"done": 3, "total": 12, "step": "fold 2", "seconds_left": 30.0} if one == run else {}
        )

    monkeypatch.setattr(Studio, "run", now)

    async def visit(page):
        await page.open(f"/runs?run={run}", "going")
        await page.then("another class", lambda: page.choose("Class", "b"))
        await page.then("the mean", lambda: page.choose("Class", "Mean of all classes"))
        await page.then("stop", lambda: page.press("Stop"))
        await page.open(f"/runs?run={bad}", "failed")
        await page.then(
            "tags",
            lambda: (
                page.choose("Tags, separated by commas", "u, v"),
                page.tell("Tags, separated by commas", "blur"),
            )[0],
        )
        for pinned in (True, False):
            await page.then(f"pin: {pinned}", partial(page.choose, "Pinned", pinned))
            assert studio.run(bad).marks.pinned is pinned
        await page.then(
            "too long",
            lambda: (
                page.choose("Tags, separated by commas", "u" * 50),
                page.tell("Tags, separated by commas", "blur"),
            )[0],
        )
        await page.then("pinned", lambda: page.choose("Pinned", True))
        await page.then("as a draft", lambda: page.press("Settings as a draft"))
        await page.then("delete", lambda: page.press("Delete"))
        await page.open(f"/runs?run={stopped}", "stopped")
        recorded("marks", [studio.run(bad).marks.model_dump(), cancelled, Desk(studio).spec.target])

    seen(studio, recorded, visit)


# ---- what is known of a finished run ---------------------------------------------------------------


def results(**changed):
    """Results of three classes on five kernels, some without a weight."""
    rng = np.random.default_rng(0)
    kernels = [
        "one: standardised RBF(gamma=0.5)",
        "one: standardised RBF(gamma=2)",
        "two: row-normalised Linear",
        "Polynomial(degree=2) on age",
        "Linear on age",
    ]
    outputs, alphas = ["a", "b", "c"], [10.0, 1.0, 0.1]
    weights = np.round(rng.dirichlet(np.ones(5), 3).T, 3)
    weights[4] = 0
    paths = [
        schema.PathResult(
            alphas=alphas,
            output=name,
            df=[1.5, 3.25, None],
            n_active=[1, 3, 4],
            names=kernels,
            chosen=1 + k % 2,
            weights=[[1.0, 0, 0, 0, 0], [0.5, 0.25, 0.25, 0, 0], [0.4, 0.3, 0.2, 0.1, 0.0]],
        )
        for k, name in enumerate(outputs)
    ]
    curve = schema.Curve(
        alphas=alphas,
        mean=[0.5, 0.8125, None],
        error=[0.125, 0.0625, 0.25],
        folds=[[0.5, 0.75, 0.7]] * 4,
        chosen=0,
        best=1,
        rule="1se",
        score="accuracy",
        n_rows=40,
    )
    rows = [[k, "abc"[k % 3], "abc"[(k * k) % 3], 0.123456 * k, None if k == 2 else -0.5] for k in range(6)]
    receivers = [
        schema.Receiver(
            output=name,
            fpr=[0, 0.25, 1],
            tpr=[0, 0.5 + 0.1 * k, 1],
            auc=0.7 + 0.05 * k,
            precision=[1, 0.5, 0.3],
            recall=[0, 0.5, 1],
            average_precision=0.6,
        )
        for k, name in enumerate(outputs)
    ]
    held = schema.HeldResult(
        scores={"accuracy": 0.5},
        columns=["row", "truth", "prediction", "decision a", "decision b"],
        rows=rows,
        n_rows=1200,
        classes=outputs,
        confusion=[[5, 1, 0], [0, 4, 2], [1, 0, 3]],
        receivers=receivers,
    )
    found = {
        "task": "classification",
        "target": "y",
        "method": "rls2",
        "estimator": "RLS2",
        "weights": schema.Weights(
            names=kernels,
            outputs=outputs,
            values=weights.tolist(),
            views={"one": 0.75, "two": 0.25, "none": 0.0},
        ),
        "curve": curve,
        "paths": paths,
        "held": held,
        "convergence": [
            schema.Convergence(
                output=name, history={"rel_gap": [0.5, 0.01, None, 1e-9], "objective": [3.0, 2.5, 2.25]}
            )
            for name in outputs[:2]
        ],
        "contributions": schema.Contributions(
            rows=["p01", "p02"],
            kernels=kernels[:3],
            outputs=outputs,
            held=True,
            intercepts=[0.1, 0.2, -0.3],
            values=rng.normal(size=(3, 2, 3)).round(3).tolist(),
        ),
        "certificate": schema.Certificate(
            objective=12.3456789,
            gap=2.5e-6,
            rel_gap=2e-7,
            status="optimal",
            n_iter=17,
            held_as="matrices",
            regularization="alpha = 1",
            citation="A paper (2010).",
            stationarity=[1e-5, 3e-4],
        ),
        "remarks": ["The gap is larger than asked for."],
        "defaults": ["kernels: those of the bank.", " alpha: by folds. "],
    }
    return schema.Results(**{**found, **changed})


def finding(name, title, values, **more):
    return Finding(
        values={k: Interval(*v) for k, v in values.items()}, name=name, title=title, **more
    ).to_json()


def evidence(**changed):
    """Numbers and sentences of each kind."""
    table = Table(
        "omission",
        "Loss",
        ["source", "loss", "matters"],
        [["one", 0.0625, "yes"], ["two", 0.001, "no"], ["third", 0.01, "inconclusive"]],
        formats={"loss": ".3f"},
    )
    numbers = {
        "simplest": finding(
            "simplest",
            "Simple rules",
            {
                "this model": (0.875, 0.7, 0.95, "", 40),
                "most frequent": (0.5, 0.35, 0.65, "", 40),
                "another": (0.4, 0.3, 0.5, "", 40),
            },
            n=40,
            details={"score": "accuracy"},
            verdicts=(Verdict("better?", "yes"),),
        ),
        "omission": finding(
            "omission",
            "Fit without each source",
            {
                "one": (0.0625, 0.01, 0.11),
                "two": (0.001, -0.02, 0.03),
                "third": (0.01, float("nan"), float("nan")),
            },
            tables=(table,),
            details={"name of score": "accuracy"},
            rows=40,
        ),
        "views": finding("views", "Views", {"one": (0.75,), "two": (0.25,), "none": (0.0,)}),
        "learning curve": finding(
            "learning curve",
            "Learning curve",
            {},
            details={
                "sizes": [10, 20, 30, 40],
                "mean": [0.5, 0.6, None, 0.8],
                "low": [0.4, 0.5, None, None],
                "high": [0.6, 0.75, None, None],
                "score": "accuracy",
            },
        ),
        "permutation": finding(
            "permutation",
            "Permutation test",
            {},
            details={"permuted": [0.4, 0.45, 0.5, 0.5, 0.55, 0.6, 0.4, 0.52], "score": 0.875},
        ),
        "classes": finding(
            "classes",
            "Scores of classes",
            {},
            tables=(
                Table(
                    "classes",
                    "Scores of classes",
                    ["class", "recall"],
                    [["a", 0.875], ["b", 0.5]],
                    "Of held-out rows.",
                ),
            ),
        ),
    }
    statements = [
        Sentence(
            "score",
            "The accuracy is 0.875.",
            (Cited(("simplest", "values", "this model", "value"), 0.875, "0.875"),),
        ),
        Sentence("baseline", "Better than equal weights.", ()),
        Sentence(
            "which",
            "Source one matters, as permuted targets say.",
            (Cited(("omission",), 0.0625, "0.0625"), Cited(("a", 1), 12345.678, "12346")),
        ),
        Sentence("sure", "Permuted targets give less.", ()),
        *(Sentence("distrust", f"Doubt {k}.", ()) for k in range(5)),
    ]
    progress = {
        "omission": schema.EvidenceProgress(state="done"),
        "stability": schema.EvidenceProgress(state="running", done=3, total=50, seconds_left=90.0),
        "sources": schema.EvidenceProgress(state="failed", reason="It broke."),
        "baselines": schema.EvidenceProgress(state="waiting", total=3, stopping=True),
    }
    kinds = ["baselines", "learning curve", "permutation", "sources", "omission", "stability"]
    found = {
        "numbers": numbers,
        "statements": statements,
        "kinds": kinds,
        "progress": progress,
        "figures": ["learning-curve"],
        "tables": ["omission", "all scores"],
    }
    return schema.Evidence(**{**found, **changed})


def telling(monkeypatch, found, known):
    """Results and evidence of any run; what is asked of evidence is noted."""
    asked = []
    monkeypatch.setattr(Studio, "results", lambda *_: found)
    monkeypatch.setattr(EvidenceDesk, "read", lambda *_: known[-1])
    for name in ("start", "stop"):

        def ask(_, *given, name=name, **more):
            asked.append([name, *given, more])
            return known[-1]

        monkeypatch.setattr(EvidenceDesk, name, ask)
    return asked


def test_what_was_found_about_classes(studio, recorded, monkeypatch):
    run = put(studio, 1, "alpha", scores={**BOTH, "accuracy, nested": (0.75, 0.6, 0.9)})
    known = [evidence()]
    asked = telling(monkeypatch, results(), known)

    async def visit(page):
        await page.open(f"/understand?run={run}", "classes")
        await page.then("another row", lambda: page.choose("Row", 1))
        await page.then("another class", lambda: page.choose("Class", 2, -1))
        await page.then("path of another class", lambda: page.choose("Class", 2))
        await page.then("degrees of freedom", lambda: page.choose("Horizontal axis", "df"))
        await page.then("the cursor", lambda: page.choose("Cursor along the path", 0))
        await page.then(
            "in the chart",
            lambda: page.tell("Weights of 5 kernels along 3 regularisation parameters", "click", 2.9, 1),
        )
        await page.then("a quantity", lambda: page.choose("Quantity", "objective"))
        await page.then("permutations", lambda: page.choose("Permutations", 12))
        await page.then("compute", lambda: page.press("Compute: Permutation test"))
        await page.then("models stay", lambda: page.choose("Fit again", False))
        await page.then("compute again", lambda: page.press("Compute: Permutation test"))
        await page.then("stop", lambda: page.press("Stop: Stability of weights"))
        await page.then("width", lambda: page.choose("Width in mm", 1000))
        await page.then("download", lambda: page.press("Download"))
        stable = {
            "names": results().weights.names[:2],
            "outputs": ["a", "b"],
            "weights": [[0.5, 0.25], [0.125, 0.75]],
            "low": [[0.4, 0.2], [0.1, 0.5]],
            "high": [[0.6, 0.3], [0.2, 0.9]],
        }
        now = evidence()
        numbers = {
            **now.numbers,
            "stability": finding(
                "stability",
                "Stability of weights",
                {"one": (0.7, 0.6, 0.8), "two": (0.3, 0.2, 0.4)},
                details=stable,
            ),
        }
        known.append(evidence(numbers=numbers, progress={}))
        await page.then(
            "stable",
            lambda: page.press("Stop: Baselines") if False else page.press("Compute: Permutation test"),
        )
        recorded("asked", [one[2:] for one in asked])

    seen(studio, recorded, visit)


def test_what_was_found_about_numbers(studio, recorded, monkeypatch):
    """Of one regularisation parameter, with a metric, coefficients, several layers and little evidence."""
    run = put(
        studio,
        2,
        "beta",
        "cancelled",
        summary={"n_active": 1, "n_held": 0},
        scores={ERROR: (1.25, None, None)},
    )
    rows = [["p1", 1.5, 1.25], ["p2", None, 2.0], ["p3", 3.0, 3.5], ["p4", -1.0, -0.5]]
    held = schema.HeldResult(scores={}, columns=["row", "truth", "prediction"], rows=rows, n_rows=4)
    layer = schema.Layer(names=["k1", "k2"], outputs=["u", "v"], values=[[0.25, 0.75], [0.5, 0.125]])
    plain = results()
    path = plain.paths[0].model_copy(
        update={
            "alphas": [1.0],
            "df": [None],
            "n_active": [3],
            "weights": [plain.paths[0].weights[1]],
            "chosen": 0,
            "output": "",
        }
    )
    weights = schema.Weights(
        names=[f"Linear on c{k}" for k in range(22)],
        outputs=["y"],
        values=[[1 / (k + 1)] for k in range(22)],
        views={"all": 1.0},
        layers=[layer, layer],
        relevance={"age": 0.7, "dose": 0.3, "far": 0.001},
    )
    found = results(
        task="regression",
        held=held,
        paths=[path],
        curve=None,
        weights=weights,
        convergence=[],
        remarks=[],
        coefficients={"intercept": 1.25, "age": -0.0001, "dose": 0.5},
        squared_error=[0.5, 0.125],
        defaults=[],
        contributions=plain.contributions.model_copy(
            update={"outputs": ["y"], "values": plain.contributions.values[:1], "intercepts": [0.5]}
        ),
    )
    numbers = {
        "folds": finding("folds", "Folds", {"R^2": (0.75, 0.5, 0.9)}, details={"said": "with care"}, rows=40),
        "relevance": finding("relevance", "Relevance", {"age": (0.7,), "dose": (0.298,), "far": (0.002,)}),
        "views": finding("views", "Views", {"all": (1.0,)}),
        "nested": Finding(
            name="nested", sentences=(Sentence("score", "Nested folds say 0.7.", ()),)
        ).to_json(),
    }
    statements = [Sentence("score", "Something.", ())]
    known = [
        evidence(numbers=numbers, statements=statements, progress={}, kinds=["baselines", "permutation"])
    ]
    telling(monkeypatch, found, known)

    async def visit(page):
        await page.open(f"/understand?run={run}", "numbers")
        known.append(evidence(statements=[]))
        await page.open(f"/understand?run={run}", "no evidence")

    seen(studio, recorded, visit)


def test_what_was_found_about_times_and_targets(studio, recorded, monkeypatch):
    run = put(
        studio,
        1,
        "times",
        time="months",
        event="died",
        target="",
        scores={"concordance, out of fold": (0.7, 0.6, 0.8)},
    )
    details = {
        "names": ["low", "high"],
        "rows": [20, 16],
        "times": [[1.0, 2.0], [1.5, 2.5]],
        "survival": [[0.9, 0.8], [0.7, 0.25]],
        "low": [[0.8, 0.7], [0.5, 0.1]],
        "high": [[1.0, 0.9], [0.8, 0.5]],
    }
    times = {
        "concordance": (0.7, 0.6, 0.8, "", 36),
        "concordance of equal weights": (0.65, 0.5, 0.75, "", 36),
    }
    numbers = {
        "out-of-fold times": finding(
            "out-of-fold times",
            "Times",
            times,
            n=36,
            sampled="rows",
            details={"events": 9},
            verdicts=(Verdict("?", "inconclusive"),),
        ),
        "risk groups": finding(
            "risk groups",
            "Risk groups",
            {},
            details=details,
            sentences=(Sentence("score", "Groups differ.", ()),),
            tables=(Table("groups", "Groups", ["group", "rows"], [["low", 20]]),),
        ),
        "survival calibration": finding(
            "survival calibration",
            "Calibration",
            {},
            details={
                "predicted": [0.2, 0.8],
                "observed": [0.25, 0.7],
                "low": [0.1, 0.5],
                "high": [0.4, 0.9],
                "time": 12.0,
            },
        ),
        "survival error": finding(
            "survival error",
            "Error",
            {},
            details={"time": [1.0, 2.0], "this model": [0.1, 0.2], "all rows": [0.15, 0.25]},
        ),
        "calibration": finding(
            "calibration",
            "Calibration",
            {},
            details={
                "a": {
                    "predicted": [0.2, 0.7],
                    "observed": [0.1, 0.8],
                    "counts": [4, 16],
                    "low": [0.0, 0.6],
                    "high": [0.3, 0.9],
                    "brier": 0.125,
                }
            },
        ),
    }
    held = schema.HeldResult(scores={}, columns=["who", "time", "risk"], rows=[["p1", 3.0, 0.5]], n_rows=1)
    known = [evidence(numbers=numbers, progress={}, kinds=[])]
    shown = [results(task="survival", held=held, contributions=None)]
    telling(monkeypatch, None, known)
    monkeypatch.setattr(Studio, "results", lambda *_: shown[-1])
    columns = ["row", "truth u", "prediction u", "truth v", "prediction v"]
    several = schema.HeldResult(
        scores={},
        columns=columns,
        rows=[["1", 0.5, 0.25, 1.0, 1.5], ["2", 1.5, 1.25, 2.0, 2.25]],
        n_rows=2,
        targets=["u", "v"],
    )
    table = Table(
        "targets",
        "Scores of targets",
        ["target", "R^2", "RMSE", "more", "hidden"],
        [["u", 0.5, 1.0, 2, 3], ["v", 0.75, 2.0, 4, 5]],
    )
    sentences = (Sentence("score", "Two targets are predicted.", ()),)

    async def visit(page):
        await page.open(f"/understand?run={run}", "times")
        shown.append(results(task="regression", held=several, contributions=None))
        known.append(
            evidence(
                numbers={
                    "targets": finding("targets", "Targets", {}, n=8, tables=(table,), sentences=sentences)
                }
            )
        )
        await page.open(f"/understand?run={run}", "targets")
        await page.then("another row", lambda: page.choose("Row", 1))
        shown.append(results(held=None, contributions=None, paths=[]))
        await page.open(f"/understand?run={run}", "none held out")

    seen(studio, recorded, visit)


def test_new_rows_and_files(studio, recorded, monkeypatch):
    run = put(studio, 1, "alpha", scores=BOTH)
    other = put(studio, 2, "times", time="months", event="died", target="")
    kinds = {
        "model.json": "model",
        "report.html": "report",
        "predictions-new.csv": "predictions",
        "figures/the-path.svg": "figure",
        "figures/the-path.pdf": "figure",
        "script.py": "script",
    }
    made = [schema.Artifact(name=name, kind=kind, size=1000 * len(name)) for name, kind in kinds.items()]
    asked = []

    def predict(_, one, data, times):
        asked.append([one, data.tables, data.key, times])
        apart = ScoresApart(40, 32, {"accuracy": 0.75}, {"accuracy": 0.9}, {}, {"accuracy": "0.75"})
        return schema.Predicted(
            artifact="predictions-new.csv",
            n_rows=40,
            columns=["row", "prediction", "low y"],
            scores={"accuracy": 0.75} if times is None else {},
            rows=[["a b", 0.123456, None], ["c", 2.0, 1.0]],
            apart=apart if times is None else None,
            stands_for={"old": "new"},
            n_missing=2,
            n_flagged=1,
            compared=False,
        )

    monkeypatch.setattr(Studio, "artifacts", lambda *_: made)
    monkeypatch.setattr(Studio, "predict", predict)
    for one in (run, other):
        (studio.places.run(one) / "script.py").write_text("import kernelweave\n")
    monkeypatch.setattr(Studio, "command", lambda *_: "kernelweave fit rows.csv")

    async def visit(page):
        await page.open(f"/use?run={run}", "use")
        await page.then("no table", lambda: page.press("Predict"))
        await page.then("a table", lambda: page.choose("Table", MORE))
        await page.then("predicted", lambda: page.press("Predict"))
        await page.open(f"/use?run={other}", "of times")
        await page.then(
            "wrong times",
            lambda: (
                page.choose("Table", MORE),
                page.choose("Times, separated by commas", "1, x"),
                page.press("Predict"),
            )[0],
        )
        await page.then(
            "times", lambda: (page.choose("Times, separated by commas", "1, 2.5"), page.press("Predict"))[0]
        )
        recorded("asked", asked)

    seen(studio, recorded, visit)


def test_runs_side_by_side(studio, recorded, monkeypatch):
    summary = {"regularization": "C = 2"}
    runs = [
        put(studio, 1, "one", scores={**BOTH, "accuracy over folds (best of either)": (0.7, None, None)}),
        put(
            studio,
            2,
            "two",
            scores={SCORE: (0.5, 0.4, 0.6), ERROR: (2.0, 1.5, 2.5)},
            summary=summary,
            method="lp",
        ),
        put(studio, 3, "two"),
    ]
    curve = results().curve
    pair = {
        "test": "McNemar",
        "why": "The same rows",
        "what": "accuracy",
        "difference": 0.375,
        "low": 0.1,
        "high": None,
        "p_value": 0.0123,
        "adjusted": 0.0246,
        "n": 40,
        "rows": 40,
    }
    curves = [curve, curve.model_copy(update={"parameter": "C", "chosen": 2})]

    def compare(self, chosen):
        found = {one.id: one for one in self.runs()}
        return schema.Comparison(
            runs=[found[one] for one in chosen],
            metrics=[SCORE, ERROR],
            kernels=["one: RBF(gamma=1)", "Linear on age"],
            weights=[[0.5, 0.25, 0.0][: len(chosen)], [0.5, 0.75, 1.0][: len(chosen)]],
            differences=[schema.Difference(setting="cv", values=["3", "", "5"][: len(chosen)])]
            if len(chosen) > 1
            else [],
            curves=[*curves, None][: len(chosen)],
            tests=[
                schema.PairedComparison(first=chosen[0], second=chosen[1], **pair),
                schema.PairedComparison(
                    first=chosen[1],
                    second=chosen[0],
                    **{**pair, "difference": None, "p_value": None, "adjusted": None},
                ),
            ]
            if len(chosen) > 1
            else [],
        )

    monkeypatch.setattr(Studio, "compare", compare)

    async def visit(page):
        await page.open(f"/compare?runs={','.join(runs)}", "three")
        await page.then("another score", lambda: page.choose("Score", ERROR))
        await page.then(
            "others",
            lambda: (page.choose("Runs to compare", runs[:2]), page.tell("Runs to compare", "popup-hide"))[0],
        )
        await page.open(f"/compare?runs={runs[1]}", "one")
        await page.open("/compare", "those alike")

    seen(studio, recorded, visit)


def test_pages_without_a_finished_run(studio, recorded):
    async def visit(page):
        for path in ("runs", "understand", "compare", "use"):
            await page.open(f"/{path}", path)

    seen(studio, recorded, visit)
