//! Logs in UTF-16 with a byte order mark, as a redirection in Windows PowerShell writes them, read as UTF-8.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Result};

/// Number of 16-bit units that are decoded at once.
const UNITS: usize = 2_048;

/// Returns the decoder of a unit's two bytes, if a text begins with a byte order mark of UTF-16.
pub(super) fn byte_order(start: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    match start {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

/// A reader of UTF-16 as UTF-8; what is invalid becomes U+FFFD.
pub(super) struct Utf16<R> {
    pub(super) source: R,
    pub(super) order: fn([u8; 2]) -> u16,
    /// Decoded text that was not read yet.
    pub(super) text: VecDeque<u8>,
}

impl<R: Read> Utf16<R> {
    /// Reads the next unit; `None` at the end. Half a unit at the end is left out.
    fn unit(&mut self) -> Result<Option<u16>> {
        let mut bytes = [0; 2];
        match self.source.read_exact(&mut bytes) {
            Ok(()) => Ok(Some((self.order)(bytes))),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.text.is_empty() {
            let mut units = Vec::with_capacity(UNITS);
            while let Some(unit) = self.unit()? {
                units.push(unit);
                // A character of two units is not divided.
                if units.len() > UNITS || (units.len() == UNITS && !(0xd800..0xdc00).contains(&unit)) {
                    break;
                }
            }
            self.text = String::from_utf16_lossy(&units).into_bytes().into();
        }
        self.text.read(out)
    }
}
