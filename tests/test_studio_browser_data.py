"""The page of tables in a real browser: types and roles of columns, kernels from files, search."""

import io
import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")
pytest.importorskip("nicegui")
pytest.importorskip("playwright", reason="needs playwright, of the dependency group test")

from playwright.sync_api import expect

from studio_server import needs_core
from studio_visit import chromium, clear_tables, needs_chromium, session, studio, visit

__all__ = ["chromium", "session", "studio", "visit"]  # fixtures

pytestmark = [pytest.mark.browser, needs_core, needs_chromium]


def test_columns_kernels_and_what_they_say(visit):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 40))
    frame = pd.DataFrame(A, columns=[f"gene_{j}" for j in range(40)])
    frame.insert(0, "id", [f"p{k}" for k in range(30)])
    frame["y"] = np.where(A[:, 0] > 0, "ill", "well")
    frame["site"] = np.arange(30) % 3
    frame.loc[4, "gene_1"], frame.loc[5, "gene_2"] = np.nan, 99.0
    stream = io.BytesIO()
    np.savez(
        stream,
        one=A @ A.T,
        two=np.exp(-A @ A.T * 0 - np.abs(A[:, :1] - A[:, 0])),
        names=frame["id"].to_numpy(str),
    )
    here = visit()
    page = here.page
    clear_tables(here)
    files = [
        {"name": "people.csv", "mimeType": "text/csv", "buffer": frame.to_csv(index=False).encode()},
        {"name": "alike.npz", "mimeType": "application/zip", "buffer": stream.getvalue()},
    ]
    page.locator("input[type=file]").first.set_input_files([files[0]])
    expect(page.get_by_role("list", name="Columns of people.csv")).to_be_visible()
    page.locator("input[type=file]").first.set_input_files([files[1]])
    card = page.get_by_role("region", name="Views from files")
    expect(card).to_contain_text("rows matched by id")
    # the role of a column
    columns = page.get_by_role("list", name="Columns of people.csv")
    with here.renewed(columns):
        here.choose("Role of gene_0", "ignored")
    expect(page.get_by_label("Role of gene_0")).to_have_value(re.compile("ignored"))
    # search: the target, which is guessed by its name, and a type
    find = page.get_by_label("Find columns of people.csv")
    find.fill("y")
    expect(page.get_by_label("Role of y", exact=True)).to_have_value("target")
    expect(page.get_by_text("Classification: the target is not numeric (2 classes).")).to_be_visible()
    find = page.get_by_label("Find columns of people.csv")
    find.fill("site")
    expect(page.get_by_label("Type of site").first).to_be_visible()
    with here.renewed(columns):
        here.choose("Type of site", "category")
    expect(page.get_by_role("region", name="Missing values")).to_contain_text("gene_1")
    draft = page.evaluate("async () => await (await fetch('/api/draft')).json()")
    assert draft["spec"]["target"] == "y"
    assert draft["spec"]["types"] == {"site": "category"}
    assert draft["spec"]["drop"] == ["gene_0"]
    assert len(draft["data"]["kernels"]) == 1
    page.get_by_role("tab", name="Outliers").click()
    expect(page.get_by_label("Outliers of people.csv")).to_contain_text("99")
    beside = page.get_by_role("region", name="Views beside each other")
    expect(beside.get_by_role("img", name=re.compile("Alignment of views"))).to_be_visible()
    clear_tables(here)
