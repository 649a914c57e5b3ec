"""The API's own documentation: /docs, Swagger UI over /openapi.json, from files that are installed here.

In: requests. Out: a page, its script, the two files of Swagger UI that fastapi-offline carries. Must not: name another host
(FastAPI's own page loads from one), need an inline script or style (the content security policy forbids them), or import that
package, which only serves here as a folder.
"""

import importlib.util
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, HTMLResponse, Response

from rag_service.errors import NotFound

router = APIRouter(include_in_schema=False)

CARRIER = "fastapi_offline"
ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>rag-service API</title>
<link rel="icon" href="/favicon.ico">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""

# Unless told otherwise, Swagger UI sends the address of the schema to a validator of its makers.
START = """SwaggerUIBundle({url: "/openapi.json", dom_id: "#swagger-ui", validatorUrl: null, deepLinking: true});
"""


@router.get("/docs")
async def docs() -> Response:
    """The page."""
    return HTMLResponse(PAGE)


@router.get("/docs/start.js")
async def start() -> Response:
    """The script that begins it."""
    return Response(START, media_type="text/javascript")


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """A file of Swagger UI."""
    spec = importlib.util.find_spec(CARRIER)
    if name not in ASSETS or spec is None or not spec.submodule_search_locations:
        raise NotFound("There is no such file.")
    return FileResponse(Path(spec.submodule_search_locations[0]) / "static" / name, media_type=ASSETS[name])
