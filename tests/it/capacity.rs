//! What fits on GPUs: parameters and KV bytes of public models worked out by hand, pools against published start-up
//! logs of vLLM, and the command as a person uses it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use capacity::{
    Cache, CapacityReport, GpuSpec, KvDtype, ModelSpec, PlannedDeployment, SCHEMA, parse_bytes, parse_tokens, plan,
};
use serde_json::{Value, json};

use crate::harness::{fixture, shared, slot};
use crate::running::BINARY;

const GIB: f64 = 1_073_741_824.0;

fn model(name: &str) -> ModelSpec {
    ModelSpec::parse(&fixture(&format!("models/{name}.json"))).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn on(gpu: &str, tensor: u64) -> PlannedDeployment {
    PlannedDeployment {
        gpu: Some(gpu.parse().unwrap()),
        utilization: 0.9,
        tensor,
        pipeline: 1,
        data: 1,
        context: 1,
        kv_dtype: None,
        precision: None,
        weights_bytes: None,
        reserve_bytes: None,
        eager: false,
        longest: None,
        batched_tokens: None,
        sequences: None,
        contexts: Vec::new(),
    }
}

fn close(value: f64, expected: f64, tolerance: f64) -> bool {
    (value - expected).abs() <= tolerance * expected
}

/// The published counts: the safetensors metadata of each repository on Hugging Face, of DeepSeek-V3 without its layer
/// for multi-token prediction, of Gemma 3 and Qwen3.5 without the vision encoder.
#[test]
fn parameters_counted_from_shapes_are_the_published_ones() {
    for (name, published) in [
        ("llama-3.1-8b", 8_030_261_248.0),
        ("llama-3.1-70b", 70_553_706_496.0),
        ("qwen2.5-7b", 7_615_616_512.0),
        ("qwen2.5-1.5b", 1_543_714_304.0),
        ("mixtral-8x7b", 46_702_792_704.0),
        ("mistral-7b-v0.1", 7_241_732_096.0),
        ("deepseek-v3", 671_026_419_200.0),
        ("gemma-2-9b", 9_241_705_984.0),
        ("gemma-3-27b", 27_009_346_304.0),
        ("gpt-oss-20b", 20_914_757_184.0),
        ("qwen3-30b-a3b", 30_532_122_624.0),
        ("qwen3-next-80b", 79_674_391_296.0),
    ] {
        let counted = model(name).parts.unwrap().total() as f64;
        assert!(close(counted, published, 0.001), "{name}: {counted}, published {published}");
    }
}

#[test]
fn kv_bytes_per_token_are_those_worked_out_by_hand() {
    for (name, dtype, tensor, by_hand) in [
        ("llama-3.1-8b", KvDtype::Bf16, 1, 2 * 32 * 8 * 128 * 2),
        ("llama-3.1-8b", KvDtype::Fp8, 1, 2 * 32 * 8 * 128),
        ("llama-3.1-70b", KvDtype::Bf16, 4, 2 * 80 * 2 * 128 * 2),
        // Eight heads among sixteen GPUs: each GPU keeps a whole one.
        ("llama-3.1-70b", KvDtype::Bf16, 16, 2 * 80 * 128 * 2),
        ("qwen2.5-7b", KvDtype::Bf16, 1, 2 * 28 * 4 * 128 * 2),
        ("mixtral-8x7b", KvDtype::Bf16, 1, 2 * 32 * 8 * 128 * 2),
        // One latent of 512 and 64 for positions per layer, whole on every GPU.
        ("deepseek-v3", KvDtype::Bf16, 1, 61 * (512 + 64) * 2),
        ("deepseek-v3", KvDtype::Bf16, 8, 61 * (512 + 64) * 2),
        ("gemma-2-9b", KvDtype::Bf16, 1, 2 * 42 * 8 * 256 * 2),
        ("gemma-3-27b", KvDtype::Bf16, 1, 2 * 62 * 16 * 128 * 2),
        // Twelve of forty-eight layers attend.
        ("qwen3-next-80b", KvDtype::Bf16, 1, 2 * 12 * 2 * 256 * 2),
    ] {
        let cache = Cache::new(&model(name), dtype, [tensor, 1, 1], 8_192).unwrap();
        assert_eq!(cache.token_bytes, by_hand, "{name} {dtype:?} tp {tensor}");
    }
    let stage = Cache::new(&model("llama-3.1-70b"), KvDtype::Bf16, [1, 3, 1], 8_192).unwrap();
    assert_eq!(stage.token_bytes, 2 * 27 * 8 * 128 * 2, "the largest of three stages has 27 of 80 layers");
}

/// "Available KV cache memory" in, "GPU KV cache size" and "Maximum concurrency" out, from logs of real GPUs.
/// Memory is printed with two digits, hence the tolerances.
#[test]
fn pools_hold_what_published_start_up_logs_tell() {
    for (name, gib, tokens, tolerance) in [
        ("llama-3.1-8b", 26.43, 216_496.0, 0.000_3),
        ("llama-3.1-8b", 19.92, 163_168.0, 0.000_3),
        // V0, RTX 3090: 1952 blocks. Source: https://github.com/vllm-project/vllm/issues/10517
        ("llama-3.1-8b", 3.81, 1_952.0 * 16.0, 0.002),
        ("qwen2.5-1.5b", 0.56, 20_992.0, 0.01),
    ] {
        let cache = Cache::new(&model(name), KvDtype::Bf16, [1, 1, 1], 8_192).unwrap();
        let held = cache.pool_tokens((gib * GIB) as u64, 131_072) as f64;
        assert!(close(held, tokens, tolerance), "{name} in {gib} GiB: {held}, published {tokens}");
    }
    let cache = Cache::new(&model("llama-3.1-8b"), KvDtype::Bf16, [1, 1, 1], 8_192).unwrap();
    for (tokens, context, published) in
        [(216_496, 8_192, "26.43"), (162_704, 16_000, "10.17"), (31_232, 20_000, "1.56")]
    {
        let pool = tokens * cache.token_bytes;
        assert_eq!(format!("{:.2}", cache.requests(pool, context)), published, "{tokens} tokens");
    }
}

/// "Setting attention block size to N tokens", as Qwen3-Next and Qwen3.5 print it with 16 and 8 bit caches.
#[test]
fn blocks_grow_until_one_holds_a_recurrent_layers_state() {
    for (name, dtype, tensor, published) in [
        ("qwen3-next-80b", KvDtype::Bf16, 1, 544),
        ("qwen3.5-27b", KvDtype::Bf16, 1, 784),
        ("qwen3.5-27b", KvDtype::Fp8, 2, 1_568),
    ] {
        assert_eq!(Cache::new(&model(name), dtype, [tensor, 1, 1], 8_192).unwrap().block_tokens, published, "{name}");
    }
}

#[test]
fn sliding_windows_stop_growing_and_share_the_pool_in_groups() {
    let cache = Cache::new(&model("gemma-3-27b"), KvDtype::Bf16, [1, 1, 1], 8_192).unwrap();
    // Ten full layers, fifty-two with a window of 1,024: groups of ten, one full and six sliding.
    let block = 10 * 16 * (2 * 16 * 128 * 2);
    assert_eq!(cache.block_bytes, block);
    // The window and one step of 8,192 tokens: 576 blocks and one more, because it need not begin with a block.
    assert_eq!(cache.request_bytes(131_072), (8_192 + 6 * 577) * block);
    assert_eq!(cache.request_bytes(160), (10 + 6 * 11) * block);
    let half = Cache::new(&model("gemma-2-9b"), KvDtype::Bf16, [1, 1, 1], 2_048).unwrap();
    assert_eq!(half.block_bytes, 21 * 16 * (2 * 8 * 256 * 2), "twenty-one layers of each kind");
}

#[test]
fn a_whole_deployment_comes_close_to_published_logs() {
    // Before 0.21 CUDA graphs stood outside the utilization.
    let before = |gpu: &str| PlannedDeployment { eager: true, ..on(gpu, 1) };
    let held = plan(&model("llama-3.1-8b"), &before("A100-40")).unwrap().fit.unwrap().kv_pool_tokens as f64;
    assert!(close(held, 163_168.0, 0.02), "A100-SXM4-40GB: {held}");
    let weights = model("llama-3.1-8b");
    let bytes = weights.precision.as_ref().unwrap().bytes(&weights.parts.unwrap(), weights.dtype) as f64;
    assert!(close(bytes / GIB, 14.988_8, 0.01), "\"Loading model weights took 14.9888 GB\": {bytes}");
}

#[test]
fn a_model_that_does_not_fit_names_the_smallest_size_that_does() {
    let report = plan(&model("llama-3.1-70b"), &on("H100", 1)).unwrap();
    let fit = report.fit.unwrap();
    assert_eq!((fit.fits, fit.longest_request_tokens, fit.smallest_tensor_parallel), (false, 0, Some(4)));
    assert!(report.warnings.iter().any(|w| w.contains("the smallest tensor-parallel size that does is 4")));
    let two = PlannedDeployment { longest: Some(4_096), ..on("H200", 2) };
    let fit = plan(&model("llama-3.1-70b"), &two).unwrap().fit.unwrap();
    assert!(fit.fits && fit.smallest_tensor_parallel == Some(2));
    let report = plan(&model("deepseek-v3"), &on("T4", 1)).unwrap();
    assert_eq!(report.fit.unwrap().smallest_tensor_parallel, None);
    assert!(report.warnings.iter().any(|w| w.contains("no tensor-parallel size up to 64 does")));
}

#[test]
fn weights_that_leave_little_to_the_cache_are_warned_of() {
    let warned = |weights: u64| {
        let deployed =
            PlannedDeployment { longest: Some(4_096), weights_bytes: Some(weights * GIB as u64), ..on("H100", 1) };
        let report = plan(&model("llama-3.1-8b"), &deployed).unwrap();
        assert!(report.fit.unwrap().fits);
        report.warnings.iter().any(|w| w.contains("few requests run at once"))
    };
    assert!(warned(64) && !warned(32));
}

#[test]
fn a_too_long_request_is_told_with_the_length_that_fits() {
    let report = plan(&model("llama-3.1-8b"), &on("L4", 1)).unwrap();
    let fit = report.fit.unwrap();
    let longest = fit.longest_request_tokens;
    assert!(!fit.fits && longest > 1_000 && longest < 131_072);
    let shorter = |longest| plan(&model("llama-3.1-8b"), &PlannedDeployment { longest: Some(longest), ..on("L4", 1) });
    assert!(shorter(longest).unwrap().fit.unwrap().fits);
    assert!(!shorter(longest + 1).unwrap().fit.unwrap().fits);
}

/// DeepSeek-V3 in FP8 on eight GPUs: 656 of its 671 billion parameters are experts, and each GPU of `--tp 8` keeps the whole
/// latent. https://docs.vllm.ai/en/stable/serving/data_parallel_deployment/, context_parallel_deployment/
#[test]
fn ranks_divide_experts_and_not_attention_and_copies_of_the_cache_are_divided() {
    let fit = |tensor, data, context| {
        let deployed = PlannedDeployment { data, context, longest: Some(8_192), ..on("H200", tensor) };
        plan(&model("deepseek-v3"), &deployed).unwrap().fit.unwrap()
    };
    let weights = |fit: &capacity::Fit| fit.memory[0].bytes as f64;
    let [shared, ranks, divided] = [fit(8, 1, 1), fit(1, 8, 1), fit(8, 1, 8)];
    // What is not experts stands on each of the ranks whole.
    let others = (weights(&ranks) - weights(&shared)) * 8.0 / 7.0;
    assert!((12e9..20e9).contains(&others), "{others}");
    assert_eq!(divided.memory, shared.memory);
    let per_copy = divided.kv_pool_tokens as f64 / shared.kv_pool_tokens as f64;
    assert!(
        close(per_copy, 8.0, 0.001)
            && close(divided.concurrency[1].requests, 8.0 * shared.concurrency[1].requests, 0.01)
    );
    let wrong = PlannedDeployment { context: 8, ..on("H100", 8) };
    let refused = plan(&model("llama-3.1-8b"), &wrong).unwrap_err().to_string();
    assert_eq!(refused, "`--dcp` divides the copies of 8 heads of keys and values on `--tp 8`");
}

#[test]
fn the_parts_of_the_memory_add_up_to_the_gpu() {
    for (name, gpu, tensor) in [("llama-3.1-8b", "H100", 1), ("mixtral-8x7b", "A100", 2), ("gemma-3-27b", "80GiB", 1)] {
        let fit = plan(&model(name), &on(gpu, tensor)).unwrap().fit.unwrap();
        let sum: u64 = fit.memory.iter().map(|share| share.bytes).sum();
        assert!(sum.abs_diff(fit.deployed.gpu_bytes) < 16, "{name}: {sum}");
        assert!((fit.memory.iter().map(|share| share.share).sum::<f64>() - 1.0).abs() < 1e-6);
    }
}

#[test]
fn configurations_that_cannot_be_right_are_refused_with_the_reason() {
    let with = |changes: Value| {
        let mut config: Value = serde_json::from_str(&fixture("models/llama-3.1-8b.json")).unwrap();
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        config.to_string()
    };
    let cases = [
        ("{".to_owned(), "EOF while parsing"),
        ("[1]".to_owned(), "expected an object"),
        ("{\"tokenizer_class\":\"x\"}".to_owned(), "there is no `num_hidden_layers`"),
        (with(json!({"num_hidden_layers": 0})), "`num_hidden_layers` is 0: expected a whole number from 1 to 2000"),
        (with(json!({"num_hidden_layers": -3})), "`num_hidden_layers` is -3"),
        (with(json!({"hidden_size": 1e300})), "`hidden_size` is 1e+300"),
        (with(json!({"vocab_size": "many"})), "`vocab_size` is \"many\""),
        (with(json!({"intermediate_size": null})), "there is no `intermediate_size`"),
        (with(json!({"num_key_value_heads": 5})), "cannot share 5 heads"),
        (with(json!({"num_attention_heads": 24, "num_key_value_heads": 8})), "no multiple of 24 heads"),
        (with(json!({"torch_dtype": "int3"})), "expected bfloat16, float16 or float32"),
        (with(json!({"layer_types": ["full_attention"]})), "names 1 layers, `num_hidden_layers` is 32"),
        (with(json!({"layer_types": vec!["magic"; 32]})), "has a layer `magic`"),
        (with(json!({"layer_types": vec!["sliding_attention"; 32]})), "no `sliding_window`"),
        (with(json!({"is_encoder_decoder": true})), "encoder-decoder"),
        (with(json!({"global_head_dim": 512})), "differ in the shape"),
        (with(json!({"num_local_experts": 16_000, "hidden_size": 1 << 20, "intermediate_size": 1 << 20})), "10^15"),
    ];
    for (text, expected) in cases {
        let error = ModelSpec::parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    }
    // The largest numbers that are believed, all at once: refused as a whole, not wrapped around.
    let most = json!({"num_hidden_layers": 2_000, "hidden_size": 1 << 20, "intermediate_size": 1 << 20, "vocab_size": 1 << 24,
        "num_attention_heads": 4_096, "num_key_value_heads": 4_096, "head_dim": 1 << 14, "num_local_experts": 1 << 14,
        "n_shared_experts": 256});
    assert!(ModelSpec::parse(&with(most)).unwrap_err().to_string().contains("10^15"));
    let unknown = ModelSpec::parse(&with(json!({"quantization_config": {"quant_method": "quip"}}))).unwrap();
    let error = plan(&unknown, &on("H100", 1)).unwrap_err().to_string();
    assert!(error.contains("--precision") && error.contains("--weights"), "{error}");
    let bare = plan(&unknown, &PlannedDeployment { gpu: None, ..on("H100", 1) }).unwrap();
    assert!(
        bare.weights.is_none() && bare.kv.is_some() && bare.warnings.len() == 1,
        "the KV cache is known all the same"
    );
    let given = PlannedDeployment { weights_bytes: Some(5 << 30), ..on("H100", 1) };
    assert!(plan(&unknown, &given).unwrap().fit.unwrap().fits);
    let error = plan(&model("qwen2.5-7b"), &on("H100", 3)).unwrap_err().to_string();
    assert_eq!(error, "28 attention heads cannot be divided among `--tp 3`");
    let many = plan(&model("llama-3.1-70b"), &on("H100", 16)).unwrap();
    assert!(
        many.warnings.iter().any(|w| w.contains("8 heads of keys and values among 16 GPUs")),
        "{:?}",
        many.warnings
    );
}

#[test]
fn quantized_checkpoints_take_what_their_bits_say() {
    let llama = |quantization: Value| {
        let mut config: Value = serde_json::from_str(&fixture("models/llama-3.1-8b.json")).unwrap();
        config["quantization_config"] = quantization;
        let model = ModelSpec::parse(&config.to_string()).unwrap();
        let bytes = model.precision.as_ref().unwrap().bytes(&model.parts.unwrap(), model.dtype);
        (bytes as f64 / GIB, model.kv_dtype)
    };
    // The sizes of the checkpoints on Hugging Face: 5.74 GB of AWQ, 9.08 GB of FP8.
    let (gib, _) = llama(json!({"quant_method": "awq", "bits": 4, "group_size": 128}));
    assert!(close(gib * GIB, 5.74e9, 0.01), "{gib}");
    let fp8 = json!({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8},
        "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}});
    let (gib, kv) = llama(fp8);
    assert!(close(gib * GIB, 9.08e9, 0.01) && kv == Some(KvDtype::Fp8), "{gib}");
}

#[test]
fn sizes_and_gpu_names_are_read_as_people_write_them() {
    for (text, gib) in [
        ("80GiB", 80.0),
        ("24GB", 24e9 / GIB),
        ("h100", 79.1),
        ("a100-40gb", 39.4),
        ("4090", 23.5),
        ("GB300", 277.5),
        ("gb10", 121.6),
        ("10GB", 10e9 / GIB),
    ] {
        assert!(close(text.parse::<GpuSpec>().unwrap().bytes as f64 / GIB, gib, 0.001), "{text}");
    }
    assert!("H10O".parse::<GpuSpec>().unwrap_err().contains("did you mean `H100`?"));
    assert!("80".parse::<GpuSpec>().unwrap_err().contains("such as 80GiB"));
    assert_eq!((parse_tokens("8K"), parse_tokens("8k"), parse_bytes("1GiB")), (Ok(8_192), Ok(8_000), Ok(1 << 30)));
    for wrong in ["0", "-1", "1.5", "many", "9999999999999"] {
        assert!(parse_tokens(wrong).is_err(), "{wrong}");
    }
}

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(BINARY)
        .arg("capacity")
        .args(arguments)
        .env_remove("PROMETHEUS_URL")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that ends before it reads is fine.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_exit_status_tells_whether_it_fits() {
    let llama = fixture("models/llama-3.1-8b.json");
    for (arguments, status, expected) in [
        (&["-"][..], 0, "8.03 B parameters"),
        (&["-", "--gpu", "H100"], 0, "The KV cache holds"),
        (&["-", "--prometheus", "http://127.0.0.1:1"], 0, "Prometheus is not asked: name the pool"),
        (&["-", "--gpu", "T4"], 1, "does not fit on 1 GPU"),
        (&["-", "--gpu", "H10O"], 2, "did you mean `H100`?"),
        (&["-", "--gpu", "H100", "--tp", "3"], 2, "32 attention heads cannot be divided among `--tp 3`"),
        (&["-", "--gpu-memory-utilization", "90"], 2, "expected a ratio"),
        (&["--gpu", "H100"], 2, "needs the model's config.json"),
        (&[], 2, "pass a config.json, or `--prometheus`"),
        (&["/nonexistent"], 2, "cannot read the configuration from /nonexistent"),
        (&["-", "--label", "namespace=n", "--prometheus", "http://127.0.0.1:1"], 3, "cannot be reached"),
    ] {
        let output = run(arguments, &llama);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn the_running_pool_is_told_beside_what_was_computed() {
    let at = (slot(0) + 60).to_string();
    let live = ["--label", "namespace=healthy", "--prometheus", &shared().url, "--at", &at, "--window", "61s"];
    let alone = run(&[&live[..], &["--output", "json"]].concat(), "");
    let report: CapacityReport = serde_json::from_slice(&alone.stdout).unwrap();
    assert_eq!((report.schema.as_str(), report.fit.is_none(), alone.status.code()), (SCHEMA, true, Some(0)));
    let live_alone = report.live.unwrap();
    assert_eq!((live_alone.kv_capacity_tokens, live_alone.replicas), (Some(32_768.0), 1));
    // 15,390 prompt and 7,331 generated tokens of 121 requests.
    let mean = (15_390.0 + 7_331.0) / 121.0;
    assert!(close(live_alone.mean_requests_per_replica.unwrap(), 32_768.0 / mean, 0.01));
    let beside = run(&[&["-", "--gpu", "H100"][..], &live].concat(), &fixture("models/llama-3.1-8b.json"));
    let said = text(&beside.stdout);
    assert!(said.contains("32,768 tokens per replica") && said.contains("of what was computed"), "{said}");
    assert!(!said.contains('\u{1b}'), "no colour into a pipe");
}
