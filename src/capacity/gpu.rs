//! GPU memory, by name or as a size.

use knowledge::playbook::suggestion;

/// GPU names and memory in GiB as the driver reports it, which is less than in the product's name.
///
/// Source: `total_memory` as vLLM and PyTorch report it; https://docs.nvidia.com/datacenter/tesla/
/// GB300: nvidia-smi's 284208 MiB. GB10 shares with its host: https://docs.nvidia.com/dgx/dgx-spark/known-issues.html
const GPU_MEMORY_GIB: [(&str, f64); 38] = [
    ("A10", 22.0),
    ("A10G", 22.0),
    ("A16", 14.7),
    ("A30", 23.6),
    ("A40", 44.4),
    ("A100", 79.2),
    ("A100-40", 39.4),
    ("A100-80", 79.2),
    ("A6000", 47.4),
    ("RTX-A6000", 47.4),
    ("RTX-6000-ADA", 47.4),
    ("RTX-PRO-6000", 94.9),
    ("RTX-3090", 23.5),
    ("RTX-4090", 23.5),
    ("RTX-5090", 31.3),
    ("H20", 95.0),
    ("H100", 79.1),
    ("H100-80", 79.1),
    ("H100-NVL", 93.0),
    ("H200", 139.8),
    ("H800", 79.1),
    ("GH200", 94.5),
    ("GH200-144", 139.8),
    ("B200", 178.3),
    ("GB200", 184.0),
    ("B300", 267.0),
    ("GB300", 277.5),
    ("GB10", 121.6),
    ("L4", 22.0),
    ("L40", 44.4),
    ("L40S", 44.4),
    ("T4", 14.6),
    ("V100", 15.8),
    ("V100-32", 31.7),
    ("MI250", 64.0),
    ("MI300X", 191.7),
    ("MI325X", 255.7),
    ("MI355X", 287.7),
];
const GIB: f64 = 1_073_741_824.0;
/// The accepted range of memory in bytes.
const PLAUSIBLE_BYTES: std::ops::RangeInclusive<f64> = 1e8..=1e14;

/// A GPU, given by its name or by the size of its memory.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuSpec {
    /// The name, if it was given by name.
    pub name: Option<String>,
    /// The total memory in bytes.
    pub bytes: u64,
}

impl std::str::FromStr for GpuSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |name: &str| -> String {
            let name = name.to_ascii_lowercase();
            let name = name.trim_start_matches("nvidia").trim_start_matches("amd").trim_end_matches("gb");
            name.chars().filter(char::is_ascii_alphanumeric).collect()
        };
        let gpu = GPU_MEMORY_GIB
            .iter()
            .find(|(name, _)| plain(name) == plain(text) || plain(name) == plain(&format!("rtx{text}")));
        if let Some((name, gib)) = gpu {
            return Ok(Self { name: Some((*name).to_owned()), bytes: (gib * GIB) as u64 });
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Self { name: None, bytes: parse_bytes(text)? });
        }
        let hint = suggestion(&text.to_ascii_uppercase(), GPU_MEMORY_GIB.iter().map(|(name, _)| *name));
        let names: Vec<&str> = GPU_MEMORY_GIB.iter().map(|(name, _)| *name).collect();
        Err(match hint {
            Some(hint) => format!("no GPU `{text}` is known: {hint} Its memory will do too, such as 80GiB"),
            None => {
                format!("no GPU `{text}` is known: expected its memory such as 80GiB, or one of {}", names.join(", "))
            }
        })
    }
}

/// Parses a size: `80GiB`, `80GB`, `512MiB`; a number without a unit is in bytes.
///
/// # Errors
/// If the text is not a size; says what is expected.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: expected a number with a unit, such as 80GiB, 24GB or 512MiB");
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "mib" | "mi" => GIB / 1024.0,
        "gib" | "gi" => GIB,
        "tib" | "ti" => GIB * 1024.0,
        "mb" | "m" => 1e6,
        "gb" | "g" => 1e9,
        "tb" | "t" => 1e12,
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * factor;
    match PLAUSIBLE_BYTES.contains(&bytes) {
        true => Ok(bytes as u64),
        false => Err(format!("`{text}` is {bytes:.0} bytes: expected between 100 MB and 100 TB, such as 80GiB")),
    }
}

/// Parses a number of tokens as vLLM does: `8192`, `8k` for 8,000, `8K` for 8,192.
///
/// # Errors
/// If the text is not a number of tokens; says what is expected.
pub fn parse_tokens(text: &str) -> Result<u64, String> {
    let factors = [("k", 1_000.0), ("K", 1_024.0), ("m", 1e6), ("M", 1_048_576.0)];
    let (number, factor) =
        factors.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor))).unwrap_or((text, 1.0));
    let tokens = number.parse::<f64>().ok().map(|n| n * factor).filter(|n| (1.0..=1e9).contains(n) && n.fract() == 0.0);
    tokens
        .map(|n| n as u64)
        .ok_or_else(|| format!("`{text}` is no number of tokens: expected such as 8192, 8k (8,000) or 8K (8,192)"))
}
