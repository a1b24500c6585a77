"""The keys of the testbed's proxy, which has no database: LiteLLM calls `check` for each request.

https://docs.litellm.ai/docs/proxy/custom_auth
"""

from litellm.proxy._types import ProxyException, UserAPIKeyAuth

KEYS = {
    "sk-alice": {"key_alias": "alice", "user_id": "alice", "team_id": "team-a", "team_alias": "a"},
    "sk-limited": {"key_alias": "limited", "user_id": "bob", "team_id": "team-b", "team_alias": "b", "rpm_limit": 60},
}


async def check(request, api_key):
    if api_key not in KEYS:
        raise ProxyException(message="Authentication Error, Invalid proxy server token passed", type="auth_error", param="key", code=401)
    return UserAPIKeyAuth(api_key=api_key, **KEYS[api_key])
