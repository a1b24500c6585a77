"""Speaks to an MCP server with the client of PyPI's `mcp`, and prints what it got as JSON.

The argument is JSON: `command` starts a server that speaks over standard input and output, `url` and `token` name one over
HTTP; `mode` is the client's way to negotiate the version, `calls` are tools with their arguments, `read` is a list of
resources.
"""

import asyncio
import json
import sys

import httpx2
import jsonschema
import mcp
from mcp.client.streamable_http import streamable_http_client


def server(asked):
    if "command" in asked:
        program, *arguments = asked["command"]
        return mcp.StdioServerParameters(command=program, args=arguments)
    headers = {"Authorization": f"Bearer {asked['token']}"} if "token" in asked else {}
    http = httpx2.AsyncClient(headers=headers, timeout=60)
    return streamable_http_client(asked["url"], http_client=http)


async def call(client, schemas, name, arguments):
    jsonschema.Draft202012Validator.check_schema(schemas.get(name, {}))
    result = await client.call_tool(name, arguments)
    texts = [content.text for content in result.content if content.type == "text"]
    links = [str(content.uri) for content in result.content if content.type == "resource_link"]
    return {
        "error": bool(result.is_error),
        "text": "\n".join(texts),
        "data": result.structured_content,
        "links": links,
    }


async def main(asked):
    async with mcp.Client(server(asked), mode=asked.get("mode", "auto"), read_timeout_seconds=60) as client:
        tools = (await client.list_tools()).tools
        schemas = {tool.name: tool.input_schema for tool in tools}
        read = []
        for uri in asked.get("read", []):
            contents = (await client.read_resource(uri)).contents
            read.append(contents[0].text)
        print(
            json.dumps(
                {
                    "server": client.server_info.model_dump(mode="json") if client.server_info else None,
                    "version": client.protocol_version,
                    "tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools],
                    "calls": [await call(client, schemas, *one) for one in asked.get("calls", [])],
                    "read": read,
                }
            )
        )


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
