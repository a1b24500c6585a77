//! The GPU under one replica: utilisation, clock, power and temperature follow what the engine computes.

use super::fault::{Link, ThrottleCause};

/// `modelName` of the simulated GPU.
pub const MODEL: &str = "NVIDIA A30";
/// Device memory in MiB.
pub const MEMORY_MIB: f64 = 24_576.0;
/// MiB that another process on a shared GPU holds.
pub const NEIGHBOUR_MIB: f64 = 1_400.0;
const MAX_CLOCK_MHZ: f64 = 1_440.0;
const IDLE_CLOCK_MHZ: f64 = 210.0;
const IDLE_WATTS: f64 = 32.0;
const MAX_WATTS: f64 = 165.0;
const AMBIENT_CELSIUS: f64 = 30.0;
const CELSIUS_PER_WATT: f64 = 0.3;
/// Seconds over which utilisation is averaged and over which the heat sink warms.
const UTIL_SECONDS: f64 = 5.0;
const HEAT_SECONDS: f64 = 40.0;

/// Bits of `DCGM_FI_DEV_CLOCKS_EVENT_REASONS` (NVIDIA DCGM field 112).
const GPU_IDLE: u64 = 0x1;
const SW_POWER_CAP: u64 = 0x4;
const HW_SLOWDOWN: u64 = 0x8;
const HW_THERMAL: u64 = 0x40;

/// Clocks pulled down to 1 / `slowdown`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttle {
    /// What the normal clock is divided by.
    pub slowdown: f64,
    /// Why.
    pub cause: ThrottleCause,
}

/// The readings of one GPU.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// What pulls its clocks down, if anything.
    pub throttle: Option<Throttle>,
    /// Share of the time a kernel ran, 0..1.
    pub util: f64,
    /// Share of the time prompts were computed, 0..1.
    pub prefill_util: f64,
    /// Power draw in watts.
    pub watts: f64,
    /// Temperature in degrees Celsius.
    pub celsius: f64,
    /// Millijoules since the driver was loaded.
    pub energy_mj: f64,
    /// Nanoseconds spent below the wanted clock because of the power cap.
    pub power_violation_ns: f64,
    /// Nanoseconds spent below the wanted clock because of heat.
    pub thermal_violation_ns: f64,
    /// The last Xid since the driver was loaded, 0 for none.
    pub xid: usize,
    /// It does not answer on the bus any more.
    pub lost: bool,
    /// Double-bit ECC errors.
    pub double_bit_errors: u64,
    /// Rows remapped for them.
    pub remapped_rows: u64,
    /// A row could not be remapped.
    pub remap_failed: bool,
    /// What is wrong with its links.
    pub link: Option<Link>,
    /// Another process computes on it.
    pub shared: bool,
    /// Bytes per second over PCIe, either way.
    pub pcie: f64,
    /// Bytes over NVLink, and what had to be sent again: broken flits, replays.
    pub nvlink: (f64, f64, f64),
}

/// What the GPUs of a replica tell each other per token that goes through the model: the sums of two layers' parts in
/// each of 32 layers, 4096 numbers of two bytes.
const LINK_BYTES_PER_TOKEN: f64 = 2.0 * 32.0 * 4096.0 * 2.0;
/// Flits of a broken link that arrive damaged, per second of work.
const FLIT_ERRORS_PER_SECOND: f64 = 40.0;

impl Gpu {
    /// An idle GPU.
    pub fn new() -> Self {
        Self {
            throttle: None,
            util: 0.0,
            prefill_util: 0.0,
            watts: IDLE_WATTS,
            celsius: AMBIENT_CELSIUS + CELSIUS_PER_WATT * IDLE_WATTS,
            energy_mj: 4.2e12,
            power_violation_ns: 0.0,
            thermal_violation_ns: 0.0,
            xid: 0,
            lost: false,
            double_bit_errors: 0,
            remapped_rows: 0,
            remap_failed: false,
            link: None,
            shared: false,
            pcie: 0.0,
            nvlink: (0.0, 0.0, 0.0),
        }
    }

    /// Takes in `seconds` of which the engine computed for `busy`, and prompts for `prefill`.
    pub fn advance(&mut self, seconds: f64, busy: f64, prefill: f64) {
        let follow = |old: f64, new: f64, over: f64| old + (new - old) * (1.0 - (-seconds / over).exp());
        // A neighbour's kernels fill what this process leaves.
        let resident = if self.shared { 1.0 } else { (busy / seconds).clamp(0.0, 1.0) };
        self.util = follow(self.util, resident, UTIL_SECONDS);
        self.prefill_util = follow(self.prefill_util, (prefill / seconds).clamp(0.0, 1.0), UTIL_SECONDS);
        // Decoding waits for memory; only prompts heat the tensor cores.
        let load = (0.62 * self.util + 0.38 * self.prefill_util) / self.slowdown();
        self.watts = IDLE_WATTS + (MAX_WATTS - IDLE_WATTS) * load;
        let mut target = AMBIENT_CELSIUS + CELSIUS_PER_WATT * self.watts;
        match self.throttle.map(|throttle| throttle.cause) {
            // The cooling failed: the GPU stays at its limit although it burns less.
            Some(ThrottleCause::Thermal) => {
                target = 92.0;
                self.thermal_violation_ns += 1e9 * busy.min(seconds);
            }
            Some(ThrottleCause::Power) => self.power_violation_ns += 1e9 * busy.min(seconds),
            None => {}
        }
        self.celsius = follow(self.celsius, target, HEAT_SECONDS);
        self.energy_mj += 1e3 * self.watts * seconds;
    }

    /// Takes in that in `seconds` so many tokens went through the model, and so many of them over the links; so many
    /// bytes went to and from host memory.
    pub fn exchange(&mut self, seconds: f64, tokens: f64, busy: f64, host: f64) {
        let bytes = LINK_BYTES_PER_TOKEN * tokens;
        // Of what goes to and from host memory half counts as sent and half as received.
        let own = if self.link == Some(Link::Pcie) { bytes / seconds } else { 0.0 } + host / 2.0 / seconds;
        self.pcie += (own - self.pcie) * (1.0 - (-seconds / UTIL_SECONDS).exp());
        if self.link != Some(Link::Pcie) {
            self.nvlink.0 += bytes;
        }
        if self.link == Some(Link::Nvlink) {
            self.nvlink.1 += FLIT_ERRORS_PER_SECOND * busy.min(seconds);
            self.nvlink.2 += FLIT_ERRORS_PER_SECOND / 4.0 * busy.min(seconds);
        }
    }

    /// Meets an Xid, with the errors in its memory that go with it.
    pub fn meet(&mut self, xid: usize) {
        self.xid = xid;
        self.lost |= xid == 79;
        match xid {
            48 | 95 => self.double_bit_errors += 2,
            94 => self.double_bit_errors += 1,
            _ => {}
        }
        self.remapped_rows += u64::from(matches!(xid, 48 | 63 | 94 | 95));
        self.remap_failed |= xid == 64;
    }

    /// Its node was reset: it is back on the bus, and what the driver counted begins anew.
    pub fn reset(&mut self) {
        self.lost = false;
    }

    /// SM clock in MHz.
    pub fn clock_mhz(&self) -> f64 {
        if self.util < 0.01 {
            return IDLE_CLOCK_MHZ;
        }
        // Clocks come in steps of 15 MHz.
        (MAX_CLOCK_MHZ / self.slowdown() / 15.0).round() * 15.0
    }

    /// The bit mask of clock event reasons.
    pub fn clock_events(&self) -> u64 {
        match self.throttle.map(|throttle| throttle.cause) {
            Some(ThrottleCause::Thermal) => HW_SLOWDOWN | HW_THERMAL,
            Some(ThrottleCause::Power) => SW_POWER_CAP,
            None if self.util < 0.01 => GPU_IDLE,
            None => 0,
        }
    }

    fn slowdown(&self) -> f64 {
        self.throttle.map_or(1.0, |throttle| throttle.slowdown)
    }
}

impl Default for Gpu {
    fn default() -> Self {
        Self::new()
    }
}
