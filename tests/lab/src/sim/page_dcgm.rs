//! The page of one dcgm-exporter: the GPUs of one node, in the fields of its default CSV and the optional ones.

use super::exposition::{Family, Kind, Labels};
use super::fleet::Replica;
use super::gpu::{self, Gpu};
use super::spec::FleetSpec;

/// The container that serves in each pod.
pub const CONTAINER: &str = "vllm";

type Field = (&'static str, Kind, &'static str, fn(&Gpu) -> f64);

/// MiB that the driver keeps for itself.
const RESERVED_MIB: f64 = 550.0;

static FIELDS: [Field; 21] = [
    ("DCGM_FI_DEV_SM_CLOCK", Kind::Gauge, "SM clock frequency (in MHz).", |gpu| gpu.clock_mhz()),
    ("DCGM_FI_DEV_MEM_CLOCK", Kind::Gauge, "Memory clock frequency (in MHz).", |_| 1215.0),
    ("DCGM_FI_DEV_MEMORY_TEMP", Kind::Gauge, "Memory temperature (in C).", |gpu| (gpu.celsius + 4.0).round()),
    ("DCGM_FI_DEV_GPU_TEMP", Kind::Gauge, "GPU temperature (in C).", |gpu| gpu.celsius.round()),
    ("DCGM_FI_DEV_POWER_USAGE", Kind::Gauge, "Power draw (in W).", |gpu| thousandths(gpu.watts)),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Kind::Counter, "Total energy consumption since boot (in mJ).", |gpu| {
        gpu.energy_mj.round()
    }),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", Kind::Counter, "Total number of PCIe retries.", |_| 0.0),
    ("DCGM_FI_DEV_GPU_UTIL", Kind::Gauge, "GPU utilization (in %).", |gpu| (100.0 * gpu.util).round()),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", Kind::Gauge, "Memory utilization (in %).", |gpu| (100.0 * dram_active(gpu)).round()),
    ("DCGM_FI_DEV_ENC_UTIL", Kind::Gauge, "Encoder utilization (in %).", |_| 0.0),
    ("DCGM_FI_DEV_DEC_UTIL", Kind::Gauge, "Decoder utilization (in %).", |_| 0.0),
    ("DCGM_FI_DEV_XID_ERRORS", Kind::Gauge, "Value of the last XID error encountered.", |gpu| gpu.xid as f64),
    ("DCGM_FI_DEV_FB_RESERVED", Kind::Gauge, "Framebuffer memory reserved (in MiB).", |_| RESERVED_MIB),
    (
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        Kind::Counter,
        "Number of remapped rows for uncorrectable errors",
        |gpu| gpu.remapped_rows as f64,
    ),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", Kind::Counter, "Number of remapped rows for correctable errors", |_| 0.0),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", Kind::Gauge, "Whether remapping of rows has failed", |gpu| {
        f64::from(u8::from(gpu.remap_failed))
    }),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", Kind::Gauge, "Ratio of time the graphics engine is active.", |gpu| {
        thousandths(gpu.util)
    }),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Kind::Gauge, "Ratio of cycles the tensor (HMMA) pipe is active.", |gpu| {
        thousandths(0.04 * gpu.util + 0.5 * gpu.prefill_util)
    }),
    (
        "DCGM_FI_PROF_DRAM_ACTIVE",
        Kind::Gauge,
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        |gpu| thousandths(dram_active(gpu)),
    ),
    (
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        Kind::Gauge,
        "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second.",
        |gpu| (1e6 + 4e6 * gpu.util + gpu.pcie).round(),
    ),
    (
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        Kind::Gauge,
        "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second.",
        |gpu| (2e6 + 9e6 * gpu.util + gpu.pcie).round(),
    ),
];

static CLOCK_EVENTS: Field = (
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    Kind::Gauge,
    "Current clock event reasons (bitmask of DCGM_CLOCKS_EVENT_REASON_*)",
    |gpu| gpu.clock_events() as f64,
);

static VIOLATIONS: [Field; 2] = [
    ("DCGM_FI_DEV_POWER_VIOLATION", Kind::Counter, "Throttling duration due to power constraints (in ns).", |gpu| {
        gpu.power_violation_ns.round()
    }),
    (
        "DCGM_FI_DEV_THERMAL_VIOLATION",
        Kind::Counter,
        "Throttling duration due to thermal constraints (in ns).",
        |gpu| gpu.thermal_violation_ns.round(),
    ),
];

static ECC: Field =
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Kind::Counter, "Total number of double-bit volatile ECC errors.", |gpu| {
        gpu.double_bit_errors as f64
    });

static NVLINK: [Field; 4] = [
    (
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        Kind::Counter,
        "Total number of NVLink bandwidth counters for all lanes.",
        |gpu| gpu.nvlink.0.round(),
    ),
    (
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        Kind::Counter,
        "Total number of NVLink flow-control CRC errors.",
        |gpu| gpu.nvlink.1.round(),
    ),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", Kind::Counter, "Total number of NVLink retries.", |gpu| {
        gpu.nvlink.2.round()
    }),
    ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", Kind::Counter, "Total number of NVLink recovery errors.", |_| {
        0.0
    }),
];

/// The page of the exporter on one node; `first` is the fleet's index of its first replica.
pub fn families(spec: &FleetSpec, replicas: &[Replica], first: usize) -> Vec<Family> {
    let mut fields: Vec<&Field> = FIELDS.iter().collect();
    if spec.dcgm.clock_events {
        fields.push(&CLOCK_EVENTS);
    }
    if spec.dcgm.violations {
        fields.extend(&VIOLATIONS);
    }
    if spec.dcgm.ecc {
        fields.push(&ECC);
    }
    if spec.dcgm.nvlink {
        fields.extend(&NVLINK);
    }
    let labels: Vec<Labels> = (0..replicas.len()).map(|i| labels(spec, replicas, first, i)).collect();
    let mut page: Vec<Family> = fields
        .into_iter()
        .map(|(name, kind, help, value)| {
            // Of a GPU that fell off the bus only the news of that is left.
            let told = |replica: &Replica| !replica.gpu.lost || *name == "DCGM_FI_DEV_XID_ERRORS";
            let gpus = replicas.iter().zip(&labels).filter(|(replica, _)| told(replica));
            gpus.fold(Family::new(name, *kind, help), |family, (replica, labels)| {
                family.with(labels.clone(), value(&replica.gpu))
            })
        })
        .collect();
    page.push(framebuffer(spec, replicas, &labels, true));
    page.push(framebuffer(spec, replicas, &labels, false));
    page
}

/// The engine takes its share of the memory at start, whatever it then uses of it.
fn framebuffer(spec: &FleetSpec, replicas: &[Replica], labels: &[Labels], used: bool) -> Family {
    let family = if used {
        Family::new("DCGM_FI_DEV_FB_USED", Kind::Gauge, "Framebuffer memory used (in MiB).")
    } else {
        Family::new("DCGM_FI_DEV_FB_FREE", Kind::Gauge, "Framebuffer memory free (in MiB).")
    };
    replicas.iter().zip(labels).filter(|(replica, _)| !replica.gpu.lost).fold(family, |family, (replica, labels)| {
        let share = match replica.stats() {
            // CUDA's context is what is left of an engine that sleeps.
            Some(stats) if stats.asleep => 0.05,
            Some(_) => spec.engine.gpu_memory_utilization,
            None => 0.0,
        };
        let neighbour = if replica.gpu.shared { gpu::NEIGHBOUR_MIB } else { 0.0 };
        let in_use = (share * gpu::MEMORY_MIB).round() + neighbour;
        let value = if used { in_use } else { gpu::MEMORY_MIB - RESERVED_MIB - in_use };
        family.with(labels.clone(), value.max(0.0))
    })
}

fn labels(spec: &FleetSpec, replicas: &[Replica], first: usize, i: usize) -> Labels {
    let replica = &replicas[i];
    let mut labels = vec![
        ("gpu", i.to_string()),
        ("UUID", format!("GPU-{}", replica.pod.uid.replace("5f0c1a52", &format!("a30c{:04x}", first + i)))),
        ("pci_bus_id", format!("00000000:{:02X}:00.0", 0x17 + 0x20 * i)),
        ("device", format!("nvidia{i}")),
        ("modelName", gpu::MODEL.to_owned()),
        ("Hostname", replica.pod.node.clone()),
        ("DCGM_FI_DRIVER_VERSION", "570.133.20".to_owned()),
    ];
    // A GPU that no pod has is exported without one.
    if replica.pod.has_container() {
        labels.extend([
            ("container", CONTAINER.to_owned()),
            ("namespace", spec.namespace.clone()),
            ("pod", replicas[i / spec.ranks * spec.ranks].pod.name.clone()),
        ]);
    }
    labels
}

/// Decoding waits for memory, prompts for compute.
fn dram_active(gpu: &Gpu) -> f64 {
    (0.82 * (gpu.util - gpu.prefill_util) + 0.3 * gpu.prefill_util).max(0.0)
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
