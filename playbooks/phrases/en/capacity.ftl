### What `capacity` prints. The first column has 24 characters.

fit-model = { $architecture }: { $parameters }; layers: { $layers }
fit-billions = { $n } B parameters
fit-millions = { $n } M parameters
fit-experts = { $parameters }, { $share } % in experts
fit-not-counted = parameters not counted
fit-full-attention = { $n } full attention
fit-sliding-window = { $n } sliding window
fit-recurrent = { $n } recurrent
fit-without-mixer = { $n } without mixer
fit-weights = weights
fit-as-given = as given
fit-kv-cache = KV cache
fit-per-token = { $dtype } { $bytes } B per token
fit-per-token-on-each = { $dtype } { $bytes } B per token, { $each } B on each GPU
fit-how = tp { $tensor }, pp { $pipeline }, utilization { $utilization }
fit-how-ranks = tp { $tensor }, pp { $pipeline }, dp { $data }, dcp { $dcp }, utilization { $utilization }
fit-activations = activations (estimate)
fit-cuda-graphs = CUDA graphs
fit-runtime = CUDA runtime, buffers
fit-reserve = reserve, as given
fit-not-used = not used
fit-holds = The KV cache holds { $tokens } tokens
fit-holds-of-each = The KV cache of each of { $ranks } ranks holds { $tokens } tokens
fit-context = context
fit-one-request = one request
fit-at-once = at once
fit-live = Live: { $scope }, { $n ->
    [one] 1 replica
   *[other] { $n } replicas
 }
fit-everything = everything
fit-tokens-each = { $tokens } tokens per replica
fit-tokens-beside = { $tokens } tokens per replica ({ $percent } % of the computed { $computed })
fit-mean-prompt = mean prompt
fit-mean-output = mean output
fit-at-that-length = fit at that length
fit-running = running
fit-requests-each = { $n } requests per replica
fit-no-signal = no { $signal }: { $why }
fit-warnings = Warnings
fit-assumed = Assumed
