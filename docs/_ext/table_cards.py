"""Tables within ``:::{div} table-cards`` become one card for each row on a narrow screen (``_static/tables.css``).

Every cell gets the heading of its column as ``data-label``, which the style shows beside it.
"""

import html
import re

TABLE = re.compile(r'(<div class="table-cards[^"]*">.*?<table\b)(.*?)(</table>)', re.S)
HEADING = re.compile(r"<th\b[^>]*>(.*?)</th>", re.S)
ROW = re.compile(r"<tr\b.*?</tr>", re.S)


def labelled(table: str) -> str:
    """A table whose cells name their columns."""
    names = [re.sub(r"<[^>]+>", "", name).strip() for name in HEADING.findall(table)]

    def cells(row: re.Match[str]) -> str:
        columns = iter(names)
        return re.sub(r"<td\b", lambda _: f'<td data-label="{html.escape(next(columns, ""))}"', row[0])

    return ROW.sub(cells, table)


def label(app, page, template, context, doctree) -> None:
    if "table-cards" in context.get("body", ""):
        context["body"] = TABLE.sub(lambda m: m[1] + labelled(m[2]) + m[3], context["body"])


def setup(app):
    app.connect("html-page-context", label)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
