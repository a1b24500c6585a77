### Sentences that stand in data: in stored diagnoses, JSON outputs and errors, which are English for whoever reads them.
### Here are their shapes, and what a person reads in place of them; no plurals. A test holds them against the code.

## Why a signal has no value

said-no-past = there is no past to compare with
said-no-series = no series
said-no-value = no value
said-no-data = no data
said-not-asked = it was not asked
said-no-replica = no replica has a value
said-no-peers = one replica alone has no peers to compare with
said-cannot-tell = { $engine } cannot tell: { $reason }
said-no-engine-series = no { $engine } series in this Prometheus
said-no-engine = no serving engine was found in this Prometheus
said-no-gateway = no gateway was found in this Prometheus
said-no-gpu = no GPU exporter was found in this Prometheus
said-no-platform = no orchestrator was found in this Prometheus
said-only-logs = only logs tell it
said-enable-missing = { $enable }: its series `{ $series }` is missing
said-enable-any = scrape its `/metrics`; one of these series must be there: { $series }
said-native = `{ $name }` is a native histogram here, and only classic ones are read
said-nothing-happened = no series: nothing of the kind happened within the window, or this version lacks it
said-only-with = only with { $feature }

## What was looked at

said-not-narrowed = the { $engine } series carry no label for the alert's { $dimension } `{ $value }`: it was not used to narrow the pool
said-gateway-other = no { $engine } series of the last hour has { $label }=`{ $value }` or names the pool's engines: that gateway is no evidence
said-gateway-unnamed = no { $engine } series of the last hour names the pool or its engines: that gateway is no evidence
said-no-such-series = no { $engine } series of the last hour has { $label }=`{ $value }`
said-no-playbook = there is no playbook `{ $id }`
said-late-queries = { $n } of { $of } queries timed out
said-several-queries = { $why } ({ $n } queries)
said-no-such-labels = no configured Prometheus has the labels { $labels }
said-fleet-not-narrowed = the engines' series carry no label for { $dimension } `{ $value }`: it was not used to narrow the fleet
said-no-such-pool = no pool of the last day has { $dimension } `{ $value }`; there is { $others }
said-gone = served within the last day but not within the last hour, and nobody is known to want it: { $pools }

## What speaks with us, and does not

said-late = timed out
said-prometheus-unreachable = Prometheus cannot be reached: { $reason }
said-prometheus-refused = Prometheus refused the query ({ $kind }): { $reason }
said-not-prometheus = the answer is not Prometheus': { $reason }
said-slack-wait = Slack asks to wait { $seconds } s
said-slack-refused = Slack refused: { $reason }
said-slack-unreachable = Slack cannot be reached: { $reason }
said-slack-late = Slack did not answer in time
said-alertmanager-unreachable = Alertmanager cannot be reached: { $reason }
said-alertmanager-late = Alertmanager did not answer in time
said-alertmanager-refused = Alertmanager answered { $status }: { $reason }
said-not-alertmanager = the answer is not Alertmanager's: { $reason }
said-refuses = refuses connections
said-unreachable = cannot be reached: { $reason }
said-silent = took the connection and did not answer in time
said-status = answered HTTP { $status }
said-redirect = answered with a redirect, which is not followed: name the page itself
said-too-large = sent more than { $size } MiB
said-not-metrics = did not send metrics: { $why }
said-not-that-engine = there is no series `{ $series }`, so it is no { $engine }
said-not-allowed = has an address that may not be read: { $address } is in no network of `exporters.allow`, or never allowed
said-no-number = has no usable number in `{ $metric }`
said-anew = started anew between the two reads, so its counters tell nothing
said-read-once = was read only once, so its counters tell nothing
said-diagnoses-wait = { $why }; diagnoses wait for it
said-messages-wait = { $why }; messages wait for it
said-no-socket = 0 of { $wanted } connections{ $why }; buttons and commands do nothing meanwhile
said-no-answer = no answer within { $milliseconds } ms

## Capacity

said-uncountable = the parameters of { $model } cannot be counted from its configuration: pass the checkpoint's size, such as `--weights 60GiB`
said-unknown-precision = the checkpoint's quantization is not known here: pass `--precision`, or its size such as `--weights 20GiB`
said-longer-than-made = { $asked } tokens are more than the model's { $made }: the engine takes that only with scaled positions
said-replicated = only { $heads } heads of keys and values among { $gpus } GPUs: each is kept { $times } times, so the pool grows less than the GPUs
said-estimated = activations are estimated for --max-num-batched-tokens { $batched } and --max-num-seqs { $sequences }; start-up logs tell the real ones, for `--reserve`
said-estimated-graphs = activations are estimated for --max-num-batched-tokens { $batched } and --max-num-seqs { $sequences }, CUDA graphs at 0.5 GiB; start-up logs tell the real ones, for `--reserve`
said-driver-size = the size is taken as what the driver reports; it is about 1 % less than an "80 GB" on the box
said-hybrid = layers of several kinds share the pool as in vLLM's hybrid KV cache manager; without it every attention layer keeps all tokens
said-nothing-else = nothing else is on these GPUs; no speculative decoding, no LoRA, no KV offloading
said-does-not-fit = the model does not fit on { $gpus }
said-request-does-not-fit = a request of { $tokens } tokens does not fit on { $gpus }; { $longest } would: `--max-model-len { $flag }`
said-smallest = { $why }; the smallest tensor-parallel size that does is { $n }
said-no-smallest = { $why }; no tensor-parallel size up to 64 does: more memory, fewer bits, `--kv-cache-dtype fp8`, or a larger `--pp`
said-less-cache = the engine's KV cache holds { $percent } % of what was computed: see `--gpu-memory-utilization`, the KV cache's type, other processes on the GPU, larger batches, a draft model, `--num-gpu-blocks-override`
said-more-cache = the engine's KV cache holds { $percent } % of what was computed: see its GPU, tensor-parallel size, precision of weights and KV cache, `--max-num-batched-tokens`
said-replicas-differ = replicas differ: { $replica } holds { $least }, others up to { $most }
said-full = { $running } requests run on each replica and { $holds } of their mean length fit: the KV cache is the limit
said-inner-model = `{ $key }` is the language model; weights of vision and audio encoders are not counted
said-no-state = the recurrent layers' state is not in this configuration and is not counted
said-tied = no `tie_word_embeddings`: the output projection is the embedding
said-untied = no `tie_word_embeddings`: the output projection is not the embedding
said-indexer = the cache of the sparse attention's indexer (`index_topk`) is not counted
said-multi-token = layers for multi-token prediction are not counted: they load with speculative decoding only
said-window-from = `sliding_window` holds for the layers from { $layer } on
said-16-bits = no `torch_dtype`: 16 bits
said-32-bits = the checkpoint is in 32 bits, which vLLM loads in 16 unless told `--dtype float32`
said-not-quantized = embeddings, output projection, norms and routers are not quantized

## Commands that were written otherwise

said-value = invalid value '{ $value }' for '{ $option }': { $why }
said-choice = invalid value '{ $value }' for '{ $option }' [possible values: { $values }]
said-unexpected = unexpected argument '{ $word }' found
said-required = the following required arguments were not provided: { $names }
said-span = expected between 1s and 31d
said-duration = expected a duration such as 30s, 5m, 1d
said-expire-which = `silence expire` of which? `silence list` shows the ids
said-silence-long = for how long? Write `silence { $what } 1h`

## What happened

said-story-alert-fires = the alert { $name } fires
said-story-alert-fires-for = the alert { $name } fires for { $n } series
said-story-alert-ended = the alert { $name } ended
said-story-alert-ended-for = the alert { $name } ended for { $n } series
said-story-reached = { $title } reached { $value } (asked: { $when })
said-story-told-first = Alertmanager told of it
said-story-told-new = Alertmanager told of new alerts
said-story-told-fewer = Alertmanager told that some alerts ended
said-story-told-again = Alertmanager told that it fires again
said-story-told-over = Alertmanager told that nothing fires any more
said-story-joined = many fire at once: it joined a digest
said-story-diagnosed-none = diagnosed: no cause stands out
said-story-diagnosed = diagnosed with cause { $id }
said-story-posted = its message was posted: { $sink }
said-story-deleted = its message was deleted by somebody
said-story-given-up = a message was given up: { $why }
said-story-took = somebody took it on
said-story-asked-again = somebody had it diagnosed again
said-story-right = somebody found the cause right
said-story-wrong = somebody found the cause wrong
said-story-silenced = somebody silenced it
said-story-unsilenced = somebody ended a silence
said-story-escalated = somebody escalated it
said-story-verified = a fix was checked again
said-story-did = { $what } ({ $detail })
said-without-cluster = { $why }; diagnoses and bundles go without its logs and events
