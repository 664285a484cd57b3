"""Documentation of the API on one page, made from its schema, without external resources."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment

from kernelweave._types import Tree

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>kernelweave studio: API</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1d2733;
  background: #fff; }
h2 { margin-top: 2.4rem; border-bottom: 1px solid #ccd3db; text-transform: capitalize; }
code { font: .92em ui-monospace, monospace; } .verb { display: inline-block; min-width: 4.2rem; font-weight: 600; }
table { border-collapse: collapse; margin: .3rem 0 1rem 4.4rem; } td { padding: .1rem 1rem .1rem 0;
  vertical-align: top; } p { margin: .2rem 0 .4rem 4.4rem; } dt { font-weight: 600; margin-top: 1.2rem; } h3 {
  margin: 1.4rem 0 0; font-size: 1rem; font-weight: 400; }
h3, td, code { overflow-wrap: anywhere; } dd { margin-left: 0; }
@media (max-width: 40rem) { p, table { margin-left: 0; } td { padding-right: .5rem; } }
@media (prefers-color-scheme: dark) { body { color: #e6eaf0; background: #12171e; } h2 { border-color: #38424f; } }
</style></head><body>
<h1>API of the studio</h1>
<p style="margin-left:0">Every request needs the cookie of a session, or <code>Authorization: Bearer</code> with the
token in <code>KERNELWEAVE_STUDIO_TOKEN</code>. The machine-readable description is
<a href="/api/openapi.json">openapi.json</a>. Errors answer with <code>{"detail": "..."}</code>.</p>
{% for tag, routes in tags.items() %}<h2>{{ tag }}</h2>
{% for route in routes %}
<h3 id="{{ route.id }}"><span class="verb">{{ route.verb }}</span> <code>{{ route.path }}</code></h3>
<p>{{ route.about }}</p>
<table>
{% for row in route.takes %}<tr><td><code>{{ row[0] }}</code></td><td>{{ row[1] }}</td><td>{{ row[2] }}</td></tr>
{% endfor %}{% if route.gives %}<tr><td>answers</td><td>{{ route.gives }}</td><td></td></tr>{% endif %}
</table>
{% endfor %}{% endfor %}
<h2>Types</h2>
<dl>{% for name, type in types.items() %}<dt id="{{ name }}">{{ name }}</dt><dd>{{ type.about }}
<table style="margin-left:0">{% for row in type.fields %}<tr><td><code>{{ row[0] }}</code></td><td>{{ row[1] }}</td>
<td>{{ row[2] }}</td></tr>{% endfor %}</table></dd>{% endfor %}</dl>
</body></html>
"""


def describe_api(schema: Tree) -> str:
    """Return the page.

    Parameters
    ----------
    schema : dict
        OpenAPI.

    Returns
    -------
    str
    """
    tags: dict[str, list[dict[str, Any]]] = {}
    for path, verbs in schema["paths"].items():
        for verb, route in verbs.items():
            takes = [(p["name"], _kind(p["schema"]), p["in"]) for p in route.get("parameters", [])]
            for content, body in route.get("requestBody", {}).get("content", {}).items():
                takes.append(("body", _kind(body["schema"]), content))
            gives: dict[str, Any] = next(
                (r for code, r in route["responses"].items() if code.startswith("2")), {}
            )
            contents = list(gives.get("content", {}).values())
            answer = contents[0].get("schema", {}) if contents else {}
            tags.setdefault(str((route.get("tags") or ["other"])[0]), []).append({
                "id": route["operationId"], "verb": verb.upper(), "path": path, "takes": takes,
                "about": route.get("description", route.get("summary", "")), "gives": _kind(answer) if answer else "",
            })  # fmt: skip
    types = {
        name: {
            "about": " ".join(kind.get("description", "").split("Parameters\n")[0].split()),
            "fields": [
                (field, _kind(about), " ".join(str(about.get("description", "")).split()))
                for field, about in kind.get("properties", {}).items()
            ],
        }
        for name, kind in schema["components"]["schemas"].items()
    }
    return Environment(autoescape=True).from_string(_PAGE).render(tags=tags, types=types)


def _kind(schema: Tree) -> str:
    """A type in words."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(part) for part in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"table of {_kind(schema['additionalProperties'])}"
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    bounds = f", {low} to {high}" if low is not None and high is not None else ""
    return f"{schema.get('type', 'anything')}{bounds}"
