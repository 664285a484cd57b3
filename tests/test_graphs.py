"""The Weisfeiler-Lehman kernel against refinement by hand, under permutations, and in models.

Modules: `kernels/graphs`, `kernels/counts`, `persistence/states`, `views/container`.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import kernelweave as kw
from kernelweave._checks import InputError
from kernelweave.kernels import Linear, Spectrum, WeisfeilerLehman, parse
from kernelweave.persistence.states import from_state, to_state

RNG = np.random.default_rng(8)


def made(n, share=0.4, labels="CNO"):
    edges = [(i, j) for i in range(n) for j in range(i) if RNG.random() < share]
    return edges, RNG.choice(list(labels), n).tolist()


GRAPHS = [made(int(n)) for n in RNG.integers(1, 8, 24)]
Y = np.array([len(edges) - labels.count("N") for edges, labels in GRAPHS], dtype=float)
AGE = RNG.normal(size=(24, 1))


def column(graphs):
    out = np.empty(len(graphs), dtype=object)
    for i, graph in enumerate(graphs):
        out[i] = graph
    return {"graph": out}


def refined(graph, iterations):
    """Trees of labels, written out in full, of all iterations."""
    edges, labels = graph
    near = [[j for edge in edges for i, j in (edge, edge[::-1]) if i == node] for node in range(len(labels))]
    own, found = list(labels), Counter((0, label) for label in labels)
    for step in range(1, iterations + 1):
        own = [(own[i], tuple(sorted((own[j] for j in near[i]), key=repr))) for i in range(len(labels))]
        found.update((step, label) for label in own)
    return found


@pytest.mark.parametrize("iterations", [0, 1, 3])
@pytest.mark.parametrize("normalize", [False, True])
def test_values_are_those_of_the_definition(iterations, normalize):
    X, Z = [*GRAPHS[:9], ([], []), ([], ["X"])], GRAPHS[6:]
    left, right = ([refined(graph, iterations) for graph in rows] for rows in (X, Z))
    K = np.array([[sum(n * b[s] for s, n in a.items()) for b in right] for a in left], dtype=float)
    own, other = (
        np.array([sum(n * n for n in a.values()) for a in rows], dtype=float) for rows in (left, right)
    )
    if normalize:
        K /= np.sqrt(np.where(own > 0, own, 1.0)[:, None] * other)
        own = (own > 0).astype(float)
    kernel = WeisfeilerLehman(iterations, normalize)
    for fitted in (kernel.fitted(column(Z)), kernel.fitted(column([([], ["unlike"])]))):
        np.testing.assert_allclose(fitted(column(X), column(Z)), K, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(fitted.diag(column(X)), own, rtol=1e-12, atol=1e-12)


def test_the_numbering_of_nodes_and_edges_does_not_matter():
    turned = []
    for edges, labels in GRAPHS:
        order = RNG.permutation(len(labels))
        place = np.argsort(order)
        moved = [(place[j], place[i]) for i, j in RNG.permutation(np.array(edges, dtype=int).reshape(-1, 2))]
        # an edge in both directions is one edge
        turned.append((moved + [edge[::-1] for edge in moved], [labels[i] for i in order]))
    K = WeisfeilerLehman()(column(GRAPHS))
    np.testing.assert_allclose(WeisfeilerLehman()(column(turned), column(GRAPHS)), K, rtol=1e-12, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    assert not np.allclose(K, 1.0)


def test_every_form_of_a_graph():
    edges, n = [(0, 1), (1, 2), (2, 3), (0, 3)], 4
    matrix = np.zeros((n, n))
    matrix[tuple(np.array(edges).T)] = 2.5

    class Nodes(SimpleNamespace):
        """A graph as networkx has it."""

        def nodes(self, data):
            return [(f"n{i}", {}) for i in range(n)]

        def edges(self, data):
            return [(f"n{i}", f"n{j}", {}) for i, j in edges]

        def __iter__(self):
            return iter(self.nodes(data=False))

    forms = [(edges, [""] * n), matrix, sparse.csr_array(matrix), sparse.coo_matrix(matrix), Nodes()]
    K = WeisfeilerLehman(2, normalize=False)(column(forms))
    # one label of four nodes in every iteration
    np.testing.assert_array_equal(K, np.full((5, 5), 48.0))
    # numbers as labels are compared as text
    K = WeisfeilerLehman(1)(column([([(0, 1)], np.array([6, 8])), ([(0, 1)], ["6", "8"])]))
    np.testing.assert_allclose(K, 1.0)
    # labels of edges count
    single, double = ([(0, 1, "-")], ["C", "C"]), ([(0, 1, "=")], ["C", "C"])
    K = WeisfeilerLehman(1, normalize=False)(column([single, double]))
    np.testing.assert_array_equal(K, [[8.0, 4.0], [4.0, 8.0]])


@pytest.mark.parametrize("iterations", [0, 3])
def test_values_are_those_of_grakel(iterations):
    grakel = pytest.importorskip("grakel", reason="kernels of another package")
    some = [(edges, labels) for edges, labels in GRAPHS if edges]
    given = [
        [{pair: 1 for edge in edges for pair in (edge, edge[::-1])}, dict(enumerate(labels))]
        for edges, labels in some
    ]
    other = grakel.WeisfeilerLehman(n_iter=max(iterations, 1), base_graph_kernel=grakel.VertexHistogram)
    if iterations == 0:
        other = grakel.VertexHistogram()
    K = WeisfeilerLehman(iterations, normalize=False)(column(some))
    np.testing.assert_array_equal(K, other.fit_transform(given))


def test_graphs_of_networkx():
    networkx = pytest.importorskip("networkx", reason="graphs of another package")
    given = []
    for edges, labels in GRAPHS:
        graph = networkx.Graph(edges)
        graph.add_nodes_from((i, {"label": label}) for i, label in enumerate(labels))
        given.append(graph)
    K = WeisfeilerLehman()(column(GRAPHS))
    np.testing.assert_allclose(WeisfeilerLehman()(column(given), column(GRAPHS)), K, rtol=1e-12, atol=1e-12)
    model = kw.MKLRegressor([WeisfeilerLehman()], alpha=0.1).fit({"graph": given}, Y)
    expected = (
        kw.MKLRegressor([WeisfeilerLehman()], alpha=0.1).fit({"graph": GRAPHS}, Y).predict({"graph": GRAPHS})
    )
    np.testing.assert_allclose(model.predict({"graph": given}), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (([(0, 2)], ["C", "C"]), r"row 1, counted from 0.*its edge \(0, 2\) names nodes other than 0 to 1"),
        (([(0, "a")], ["C", "C"]), r"its edge \(0, 'a'\) names nodes"),
        (([(0, 1)], ["C", "C"], 3), "cannot be read: .* Pass graphs as pairs"),
        (np.ones((2, 3)), r"its adjacency matrix must be square, got shape \(2, 3\)"),
        ({1, 2, 3}, "cannot be read"),
    ],
)
def test_what_is_no_graph_is_named_by_row(graph, message):
    with pytest.raises(InputError, match=message):
        WeisfeilerLehman()(column([GRAPHS[0], graph]))


def test_columns_of_other_cells():
    with pytest.raises(InputError, match="WeisfeilerLehman reads graphs, but column 'note' holds text"):
        kw.MKLRegressor([WeisfeilerLehman().on("note")], alpha=1.0).fit(
            pd.DataFrame({"note": ["a b c", "d"]}), [0, 1]
        )
    with pytest.raises(InputError, match="WeisfeilerLehman reads graphs, but column 'x0' holds numbers"):
        WeisfeilerLehman()(AGE)
    with pytest.raises(InputError, match=r"which reads objects, but none of the views 't' holds objects"):
        kw.MKLRegressor([WeisfeilerLehman()], alpha=1.0).fit({"t": AGE}, Y)
    with pytest.raises(TypeError, match=r"in column 'graph'.*Pairwise\(function\)\.on\('graph'\)"):
        kw.MKLRegressor().fit(pd.DataFrame({"graph": GRAPHS, "age": AGE[:, 0]}), Y)


def test_text_and_plain_values():
    kernel = WeisfeilerLehman(2, normalize=False)
    assert parse(repr(kernel)) == kernel == from_state(to_state(kernel))
    assert parse("weisfeilerlehman.on('graph')").label == "WeisfeilerLehman(iterations=3) on graph"
    assert kernel.fitted(column(GRAPHS)).label.startswith("WeisfeilerLehman(iterations=2, ")
    fitted = WeisfeilerLehman().fitted(column(GRAPHS[:9]))
    again = from_state(to_state(fitted))
    phi = fitted.features(column(GRAPHS))
    assert sparse.issparse(phi)
    np.testing.assert_array_equal(again.features(column(GRAPHS)).toarray(), phi.toarray())


def test_models(tmp_path):
    views = {"graph": GRAPHS, "age": AGE, "code": ["ACG", "GGC", "AAA"] * 8}
    model = kw.MKLRegressorCV(
        [WeisfeilerLehman(1), WeisfeilerLehman(3), Linear(), Spectrum(2)], n_alphas=4, cv=3
    )
    model.fit(views, Y)
    assert model.kernel_names_[0].startswith("graph: WeisfeilerLehman(iterations=1, ")
    assert [name.split(":")[0] for name in model.kernel_names_] == ["graph", "graph", "age", "code"]
    assert model.score(views, Y) > 0.8
    again = kw.load(kw.save(model, tmp_path / "m", training_rows=True))
    np.testing.assert_allclose(again.predict(views), model.predict(views), rtol=1e-10)
    with pytest.raises(InputError, match="no ONNX form"):
        kw.to_onnx(model, tmp_path / "m.onnx")
    frame = pd.DataFrame({"graph": GRAPHS, "age": AGE[:, 0]})
    alone = kw.MKLRegressor([WeisfeilerLehman().on("graph"), Linear()], alpha=0.1).fit(frame, Y)
    again = kw.load(kw.save(alone, tmp_path / "m"))
    np.testing.assert_allclose(again.predict(frame), alone.predict(frame), rtol=1e-10)
    assert len(again.model_.source.table.cells[0]) == 0  # no graph is in the file


def test_matrices_in_a_file(tmp_path):
    matrices = [sparse.csr_array((RNG.random((n, n)) < 0.4).astype(float)) for n in RNG.integers(0, 5, 24)]
    model = kw.MKLRegressor([WeisfeilerLehman()], alpha=0.1).fit({"graph": matrices}, Y)
    again = kw.load(kw.save(model, tmp_path / "m", training_rows=True))
    np.testing.assert_allclose(
        again.predict({"graph": matrices}), model.predict({"graph": matrices}), rtol=1e-10
    )
    # equal rows are those of equal graphs, whatever prints alike
    assert len(np.unique(model.model_.source.content())) == len({one.toarray().tobytes() for one in matrices})


def test_rows_without_a_graph():
    lacking = [None, *GRAPHS[1:]]
    views = {"graph": lacking, "age": AGE}
    with pytest.raises(InputError, match="missing values"):
        kw.MKLRegressor([WeisfeilerLehman(), Linear()], alpha=0.1, missing_views="error").fit(views, Y)
    model = kw.MKLRegressor([WeisfeilerLehman(), Linear()], alpha=0.1).fit(views, Y)
    assert model.missing_["views"] == {"graph": 1}
    assert np.isfinite(model.predict(views)).all()
    assert np.isfinite(model.predict({"graph": None, "age": AGE})).all()
    # in a table it is a graph without nodes
    frame = pd.DataFrame({"graph": lacking, "age": AGE[:, 0]})
    bank = [WeisfeilerLehman(normalize=False).on("graph"), Linear().on("age")]
    filled = kw.MKLRegressor(bank, alpha=0.1, missing="impute").fit(frame, Y)
    empty = kw.MKLRegressor(bank, alpha=0.1).fit(frame.assign(graph=[([], []), *GRAPHS[1:]]), Y)
    np.testing.assert_allclose(
        filled.predict(frame), empty.predict(frame.assign(graph=[([], []), *GRAPHS[1:]]))
    )


def test_graphs_are_read_once_for_all_kernels_and_folds(monkeypatch):
    counted, own = [], WeisfeilerLehman._count
    monkeypatch.setattr(
        WeisfeilerLehman, "_count", lambda self, cells: counted.append(self.iterations) or own(self, cells)
    )
    bank = [WeisfeilerLehman(2), WeisfeilerLehman(2, normalize=False), WeisfeilerLehman(1)]
    kw.MKLRegressorCV(bank, n_alphas=3, cv=3).fit({"graph": GRAPHS}, Y)
    assert sorted(counted) == [1, 2]


def test_labels_of_nodes_and_edges_are_read_in_every_form():
    class Drawn(SimpleNamespace):
        """A graph as networkx has it, whose nodes have names in another order."""

        def nodes(self, data=False):
            own = [("c", {"label": "O"}), ("a", {"label": 6}), ("b", {})]
            return own if data else [node for node, _ in own]

        def edges(self, data=False):
            own = [("a", "b", {"label": 2}), ("b", "c", {})]
            return own if data else [edge[:2] for edge in own]

    plain = ([(1, 2, "2"), (2, 0)], ["O", "6", ""])
    others = [
        ([(1, 2), (2, 0)], ["O", "6", ""]),
        ([(1, 2, "2"), (2, 0)], ["6", "O", ""]),
        ([(1, 2, "2"), (1, 0)], plain[1]),
    ]
    k = WeisfeilerLehman(2, normalize=False)
    K = k(column([Drawn(), plain, *others]))
    assert K[0, 0] == K[0, 1] == K[1, 1]
    # an edge that is given twice, the other way round, counts once
    twice = ([(2, 1, "2"), (1, 2, "2"), (0, 2)], plain[1])
    assert k(column([twice, plain])).tolist() == [[K[0, 0]] * 2] * 2
    assert (K[0, 2:] < K[0, 0]).all()
    assert k(column([([], []), plain])).tolist() == [[0.0, 0.0], [0.0, K[0, 0]]]
    for wrong in (
        ([(0, 3)], ["a", "b"]),
        ([(0, -1)], ["a", "b"]),
        ([(0, 0.5)], ["a", "b"]),
        np.zeros((2, 3)),
        {1},
    ):
        with pytest.raises(kw.InputError, match="The graph of row 1, counted from 0"):
            k(column([plain, wrong]))
