### What `diagnose` prints of a load test. A title of a column has at most 13 characters.

load-saturated = SATURATED at { $requests }, with { $concurrency } requests at one time: up to { $more } at one time throughput stays at { $tokens }, and the first token comes after { $after } instead of { $before }.
load-not-saturated = NOT SATURATED up to { $requests }, with { $concurrency } requests at one time: throughput still rises.
load-unknown = CANNOT TELL: the load of the steps is too much alike. Run at least two steps, the last one with a quarter more requests at one time.
load-kv-cache = Limit: the KV cache. { $used } of it is in use, and { $waiting } wait.
    Helps: more memory for the KV cache, an FP8 KV cache, shorter contexts, or more replicas.
    Does not help: a higher limit of running requests (`--max-num-seqs` of vLLM).
load-running-requests = Limit: the number of running requests. { $waiting } wait although { $used } of the KV cache is in use.
    Helps: a higher limit of running requests (`--max-num-seqs` of vLLM), as long as the time between tokens is good enough, or more replicas.
    Does not help: more memory for the KV cache.
load-first-tokens = Requests wait before their first token; the time between tokens stays.
    Helps: more replicas, or fewer and shorter prompts at one time.
    Cannot tell: which limit they wait for.
load-batch = Tokens follow each other more slowly: the batch takes all of the GPU.
    Helps: more replicas, or faster GPUs.
    Does not help: a higher limit of running requests.
load-limit-unknown = Cannot tell: what limits it. More replicas help in any case where requests are spread evenly.
load-clients-only = These are the clients' numbers alone. To see the limit, save the server's `/metrics` twice during the saturated step, a minute apart, and pass both files.
load-columns = rate|at once|finished|tokens|TTFT|ITL|failed|waiting|KV cache
load-mark = {"  "}← saturated
