//! The page of one utkuozdemir/nvidia_gpu_exporter (nvidia-smi backend): base units, GPUs by uuid, no pods.

use super::effect::is_survivable;
use super::exposition::{Family, Kind, Labels};
use super::fleet::Replica;
use super::gpu::{self, Gpu};
use super::spec::FleetSpec;

const MIB: f64 = 1024.0 * 1024.0;
const POWER_LIMIT_WATTS: f64 = 165.0;

type Field = (&'static str, &'static str, fn(&Gpu) -> f64);

static FIELDS: [Field; 17] = [
    ("nvidia_smi_utilization_gpu_ratio", "utilization.gpu [%]", |gpu| hundredths(gpu.util)),
    ("nvidia_smi_utilization_memory_ratio", "utilization.memory [%]", |gpu| hundredths(0.8 * gpu.util)),
    ("nvidia_smi_power_draw_watts", "power.draw [W]", |gpu| hundredths(gpu.watts)),
    ("nvidia_smi_enforced_power_limit_watts", "enforced.power.limit [W]", |_| POWER_LIMIT_WATTS),
    ("nvidia_smi_temperature_gpu", "temperature.gpu", |gpu| gpu.celsius.round()),
    ("nvidia_smi_clocks_current_sm_clock_hz", "clocks.current.sm [MHz]", |gpu| 1e6 * gpu.clock_mhz()),
    ("nvidia_smi_clocks_current_memory_clock_hz", "clocks.current.memory [MHz]", |_| 1_215e6),
    ("nvidia_smi_clocks_event_reasons_active", "clocks_event_reasons.active", |gpu| gpu.clock_events() as f64),
    ("nvidia_smi_clocks_event_reasons_gpu_idle", "clocks_event_reasons.gpu_idle", |gpu| bit(gpu, 0x1)),
    ("nvidia_smi_clocks_event_reasons_sw_power_cap", "clocks_event_reasons.sw_power_cap", |gpu| bit(gpu, 0x4)),
    ("nvidia_smi_clocks_event_reasons_hw_slowdown", "clocks_event_reasons.hw_slowdown", |gpu| bit(gpu, 0x8)),
    ("nvidia_smi_clocks_event_reasons_sw_thermal_slowdown", "clocks_event_reasons.sw_thermal_slowdown", |gpu| {
        bit(gpu, 0x20)
    }),
    ("nvidia_smi_clocks_event_reasons_hw_thermal_slowdown", "clocks_event_reasons.hw_thermal_slowdown", |gpu| {
        bit(gpu, 0x40)
    }),
    ("nvidia_smi_ecc_errors_uncorrected_volatile_total", "ecc.errors.uncorrected.volatile.total", |gpu| {
        gpu.double_bit_errors as f64
    }),
    ("nvidia_smi_remapped_rows_uncorrectable", "remapped_rows.uncorrectable", |gpu| gpu.remapped_rows as f64),
    ("nvidia_smi_remapped_rows_failure", "remapped_rows.failure", |gpu| f64::from(u8::from(gpu.remap_failed))),
    ("nvidia_smi_gpu_recovery_action", "gpu_recovery_action", recovery_action),
];

/// The page of the exporter on one node; `first` is the fleet's index of its first replica.
pub fn families(spec: &FleetSpec, replicas: &[Replica], first: usize, now: f64) -> Vec<Family> {
    let uuids: Vec<Labels> = replicas.iter().enumerate().map(|(i, r)| vec![("uuid", uuid(r, first + i))]).collect();
    let per_gpu = |name, help, value: &dyn Fn(&Replica) -> f64| {
        // A GPU that fell off the bus is in no answer of nvidia-smi.
        let gpus = replicas.iter().zip(&uuids).filter(|(replica, _)| !replica.gpu.lost);
        gpus.fold(Family::new(name, Kind::Gauge, help), |family, (replica, labels)| {
            family.with(labels.clone(), value(replica))
        })
    };
    let mut page: Vec<Family> =
        FIELDS.iter().map(|(name, help, value)| per_gpu(name, help, &|replica| value(&replica.gpu))).collect();
    let total = gpu::MEMORY_MIB * MIB;
    // The engine takes its share of the memory at start, whatever it then uses of it.
    let used = |replica: &Replica| {
        let share = if replica.stats().is_some() { spec.engine.gpu_memory_utilization } else { 0.0 };
        let neighbour = if replica.gpu.shared { gpu::NEIGHBOUR_MIB * MIB } else { 0.0 };
        ((share * total).round() + neighbour).min(total)
    };
    page.push(per_gpu("nvidia_smi_memory_total_bytes", "memory.total [MiB]", &|_| total));
    page.push(per_gpu("nvidia_smi_memory_used_bytes", "memory.used [MiB]", &used));
    page.push(per_gpu("nvidia_smi_memory_free_bytes", "memory.free [MiB]", &|replica| total - used(replica)));
    let info = Family::new("nvidia_smi_gpu_info", Kind::Gauge, "Identity of the GPU.");
    let told = uuids.iter().enumerate().filter(|(i, _)| !replicas[*i].gpu.lost);
    page.push(told.fold(info, |family, (i, uuid)| {
        let mut labels = uuid.clone();
        labels.extend([
            ("name", gpu::MODEL.to_owned()),
            ("driver_version", "570.133.20".to_owned()),
            ("pci_bus_id", format!("00000000:{:02X}:00.0", 0x17 + 0x20 * i)),
            ("index", i.to_string()),
        ]);
        family.with(labels, 1.0)
    }));
    let own = |name, help, value| Family::new(name, Kind::Gauge, help).with(Labels::new(), value);
    page.push(own("nvidia_smi_command_exit_code", "Exit code of the last scrape command", 0.0));
    page.push(own("nvidia_smi_last_collect_success", "The last collection succeeded", 1.0));
    page.push(own("nvidia_smi_last_collect_success_timestamp_seconds", "Time of the last success", now.floor()));
    page
}

fn uuid(replica: &Replica, index: usize) -> String {
    replica.pod.uid.replace("5f0c1a52", &format!("a30c{index:04x}"))
}

/// 0 for none, 1 for a reset, 4 for one after its work is drained.
fn recovery_action(gpu: &Gpu) -> f64 {
    match gpu.xid {
        63 | 94 => 4.0,
        74 => 1.0,
        xid if xid == 0 || is_survivable(xid) => 0.0,
        _ => 1.0,
    }
}

fn bit(gpu: &Gpu, bit: u64) -> f64 {
    f64::from(u8::from(gpu.clock_events() & bit != 0))
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
