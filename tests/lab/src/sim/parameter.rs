//! The parameters of faults: what they are called, how they are read and written.
//!
//! A parameter's name tells its meaning and its bounds, whichever fault has it.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};

/// A type that a parameter of a fault can have.
pub(super) trait Parameter: Sized {
    /// Reads the parameter called `key`.
    fn read(key: &str, text: &str) -> Result<Self>;
    /// Writes it so that [`Parameter::read`] finds the same.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    /// The replica that it names, for the parameter `replica`.
    fn replica(&self, _key: &str) -> Option<usize> {
        None
    }
}

impl Parameter for f64 {
    fn read(key: &str, text: &str) -> Result<Self> {
        let value: f64 = text.parse().context("expected a number")?;
        match key {
            "share" | "acceptance" | "failed" => ensure!((0.0..=1.0).contains(&value), "expected 0 to 1"),
            "seconds" => ensure!((0.01..=86_400.0).contains(&value), "expected 0.01 to 86400"),
            _ => ensure!((0.01..=100.0).contains(&value), "expected 0.01 to 100"),
        }
        Ok(value)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Parameter for usize {
    fn read(key: &str, text: &str) -> Result<Self> {
        match key {
            "replica" => text.parse().context("expected the index of a replica"),
            "node" => text.parse().context("expected the index of a node"),
            _ => {
                let value = text.parse().context("expected a number")?;
                ensure!((1..=10_000).contains(&value), "expected 1 to 10000");
                Ok(value)
            }
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }

    fn replica(&self, key: &str) -> Option<usize> {
        (key == "replica").then_some(*self)
    }
}

/// `all` or the index of a replica.
impl Parameter for Option<usize> {
    fn read(_key: &str, text: &str) -> Result<Self> {
        match text {
            "all" => Ok(None),
            index => Ok(Some(index.parse().context("expected `all` or the index of a replica")?)),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Some(replica) => write!(f, "{replica}"),
            None => f.write_str("all"),
        }
    }

    fn replica(&self, _key: &str) -> Option<usize> {
        *self
    }
}

impl Parameter for bool {
    fn read(_key: &str, text: &str) -> Result<Self> {
        text.parse().context("expected `true` or `false`")
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// An enum whose values have names.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $( $(#[$doc:meta])* $variant:ident = $word:literal ),* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $( $(#[$doc])* $variant ),*
        }

        impl $name {
            /// Its name among the parameters.
            pub fn as_str(self) -> &'static str {
                match self {
                    $( $name::$variant => $word ),*
                }
            }
        }

        impl Parameter for $name {
            fn read(_key: &str, text: &str) -> Result<Self> {
                match text {
                    $( $word => Ok($name::$variant), )*
                    _ => bail!("expected {}", [$( concat!("`", $word, "`") ),*].join(" or ")),
                }
            }

            fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Why a GPU's clocks are pulled down.
    ThrottleCause {
        /// Too hot: hardware slowdown, thermal violation time rises.
        Thermal = "thermal",
        /// At the power cap: power violation time rises.
        Power = "power"
    }
}

words! {
    /// The class of an error answer.
    ErrorStatus {
        /// 400 to 499.
        Client = "4xx",
        /// 500 to 599.
        Server = "5xx"
    }
}

words! {
    /// What is wrong between the GPUs of one replica.
    Link {
        /// There is no NVLink between them: everything goes over PCIe.
        Pcie = "pcie",
        /// NVLink is there and repeats what arrives broken.
        Nvlink = "nvlink"
    }
}

words! {
    /// What a neighbour takes away.
    Share {
        /// The container is at its CPU limit and is throttled.
        Throttle = "throttle",
        /// Other processes of the node take the CPU; no counter of the container tells.
        Steal = "steal",
        /// Another process computes on the same GPU and holds memory there.
        Gpu = "gpu"
    }
}

words! {
    /// Which page is missing.
    Page {
        /// The server's own; it goes on to serve.
        Server = "server",
        /// The engine's part of it, as with `--disable-log-stats`.
        Stats = "stats",
        /// dcgm-exporter's, of the node.
        Gpu = "gpu",
        /// kube-state-metrics'.
        Kube = "kube"
    }
}
