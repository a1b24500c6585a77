//! A streaming parser of query results: one series at a time, sample values as the text that Prometheus wrote.
//!
//! Only the current series is held, in buffers that are reused.
//! Source of the shapes: Prometheus HTTP API, "Format overview" and "Expression query result formats".

use std::fmt;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::partial::{MissingPart, UNNAMED, is_annotation, is_beyond_all_stores};
use knowledge::alert::Labels;

/// Maximum bytes of one series' sample texts; a day of scrapes every second takes 2 MB.
const SERIES_BYTES: usize = 32 << 20;
/// Maximum number of one series' samples: twelve days of scrapes every second.
const SERIES_SAMPLES: usize = 1 << 20;
/// Maximum number of warnings that are retained of one answer.
const WARNINGS: usize = 8;

/// One series of raw samples; the only one of a vector, and one without labels for a scalar.
#[derive(Debug, Default)]
pub struct Raw {
    /// The series' labels, with `__name__`.
    pub labels: Labels,
    /// The number of native histograms among its samples; they have no text and are left out.
    pub histograms: usize,
    /// Unix milliseconds, and the end of the sample's text in `texts`.
    times: Vec<(i64, usize)>,
    texts: Vec<u8>,
}

impl Raw {
    /// Iterates over the samples in order: unix milliseconds, and the value as Prometheus wrote it, untrusted.
    pub fn samples(&self) -> impl Iterator<Item = (i64, &[u8])> {
        let begins = std::iter::once(0).chain(self.times.iter().map(|(_, end)| *end));
        self.times.iter().zip(begins).map(|((at, end), begin)| (*at, &self.texts[begin..*end]))
    }

    fn clear(&mut self) {
        self.labels.clear();
        self.histograms = 0;
        self.times.clear();
        self.texts.clear();
    }
}

/// The fields of an answer beside its series.
#[derive(Debug, Default)]
pub struct MatrixEnvelope {
    pub(super) status: String,
    pub(super) error_type: Option<String>,
    pub(super) error: Option<String>,
    /// Warnings about missing data, without PromQL's annotations.
    pub(super) warnings: Vec<String>,
    /// `matrix`, `vector`, `scalar`, `string`.
    pub(super) result_type: Option<String>,
    /// True if `take` stopped the reading.
    pub(super) stopped: bool,
}

impl MatrixEnvelope {
    /// Returns the part of the data that the answer lacks: that of a store that is away, before one that no store keeps.
    pub(super) fn missing(&self) -> Option<MissingPart> {
        let away = self.warnings.iter().find(|warning| !is_beyond_all_stores(warning));
        away.or(self.warnings.first()).map(|warning| MissingPart::new(warning))
    }
}

/// Parses an answer to its end, or until `take` breaks.
///
/// # Errors
/// If it is not JSON of the expected shape, or is cut off.
pub fn read_matrix(
    from: impl Read,
    mut take: impl FnMut(&mut Raw) -> ControlFlow<()>,
) -> Result<MatrixEnvelope, serde_json::Error> {
    let mut raw = Raw::default();
    let mut envelope = MatrixEnvelope::default();
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(128 << 10, from));
    let read = json.deserialize_map(Answer { envelope: &mut envelope, raw: &mut raw, take: &mut take });
    match read.and_then(|()| json.end()) {
        Err(_) if envelope.stopped => Ok(envelope),
        Err(error) => Err(error),
        Ok(()) => Ok(envelope),
    }
}

/// Returns true if the answer ended before its JSON was complete.
pub(super) fn is_cut(error: &serde_json::Error) -> bool {
    error.is_eof() || error.io_error_kind() == Some(io::ErrorKind::UnexpectedEof)
}

type Take<'a> = &'a mut dyn FnMut(&mut Raw) -> ControlFlow<()>;

struct Answer<'a> {
    envelope: &'a mut MatrixEnvelope,
    raw: &'a mut Raw,
    take: Take<'a>,
}

impl<'de> Visitor<'de> for Answer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer of Prometheus' API")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { envelope, raw, take } = self;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "status" => envelope.status = map.next_value()?,
                "errorType" => envelope.error_type = map.next_value()?,
                "error" => envelope.error = map.next_value()?,
                // `warnings` of Prometheus and Thanos; `isPartial` of VictoriaMetrics.
                "warnings" => {
                    let warnings: Option<Vec<String>> = map.next_value()?;
                    let about_data = warnings.into_iter().flatten().filter(|warning| !is_annotation(warning));
                    envelope.warnings.extend(about_data.take(WARNINGS));
                }
                "isPartial" => {
                    if map.next_value::<bool>()? {
                        envelope.warnings.push(UNNAMED.to_owned());
                    }
                }
                "data" => map.next_value_seed(Data { raw: &mut *raw, take: &mut *take, envelope: &mut *envelope })?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Data<'a> {
    raw: &'a mut Raw,
    take: Take<'a>,
    envelope: &'a mut MatrixEnvelope,
}

impl<'de> DeserializeSeed<'de> for Data<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Data<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the data of a query")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "result" => {
                    let stopped = &mut self.envelope.stopped;
                    map.next_value_seed(All { raw: &mut *self.raw, take: &mut *self.take, stopped })?;
                }
                "resultType" => self.envelope.result_type = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct All<'a> {
    raw: &'a mut Raw,
    take: Take<'a>,
    stopped: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for All<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for All<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(element) = seq.next_element_seed(One(&mut *self.raw))? {
            if matches!(element, Element::Whole) && (self.take)(self.raw).is_break() {
                *self.stopped = true;
                return Err(A::Error::custom("nobody wants the rest"));
            }
        }
        Ok(())
    }
}

/// The meaning of an element of the result.
enum Element {
    /// A series, or the value of a scalar.
    Whole,
    /// The time of a scalar, whose value follows.
    Time,
}

struct One<'a>(&'a mut Raw);

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = Element;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Element, D::Error> {
        from.deserialize_any(self)
    }
}

impl One<'_> {
    fn scalar(self, seconds: f64) -> Element {
        self.0.clear();
        self.0.times.push((millis(seconds), 0));
        Element::Time
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series with `metric` and `value` or `values`, or a scalar")
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Element, E> {
        Ok(self.scalar(seconds))
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Element, E> {
        Ok(self.scalar(seconds as f64))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Element, E> {
        Ok(self.scalar(seconds as f64))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Element, E> {
        Text(&mut self.0.texts).visit_str(text)?;
        let end = self.0.texts.len();
        self.0.times.iter_mut().for_each(|time| time.1 = end);
        Ok(Element::Whole)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Element, A::Error> {
        self.0.clear();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "metric" => self.0.labels = map.next_value()?,
                "value" => map.next_value_seed(Sample(&mut *self.0))?,
                "values" => map.next_value_seed(Samples(&mut *self.0))?,
                "histograms" => self.0.histograms = map.next_value::<Vec<IgnoredAny>>()?.len(),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Element::Whole)
    }
}

struct Samples<'a>(&'a mut Raw);

impl<'de> DeserializeSeed<'de> for Samples<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Samples<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of samples")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Sample(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

struct Sample<'a>(&'a mut Raw);

impl<'de> DeserializeSeed<'de> for Sample<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for Sample<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time in seconds and a value as text")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if self.0.times.len() >= SERIES_SAMPLES {
            return Err(A::Error::custom(format!("one series has more than {SERIES_SAMPLES} samples")));
        }
        let missing = || A::Error::custom("a sample without a time and a value");
        let at: f64 = seq.next_element()?.ok_or_else(missing)?;
        seq.next_element_seed(Text(&mut self.0.texts))?.ok_or_else(missing)?;
        self.0.times.push((millis(at), self.0.texts.len()));
        Ok(())
    }
}

struct Text<'a>(&'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value as text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if self.0.len() + text.len() > SERIES_BYTES {
            return Err(E::custom(format!("one series has more than {} MiB of samples", SERIES_BYTES >> 20)));
        }
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Converts seconds to milliseconds; saturates.
fn millis(seconds: f64) -> i64 {
    (seconds * 1e3).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(body: &str) -> (Vec<String>, Result<MatrixEnvelope, serde_json::Error>) {
        let mut rows = Vec::new();
        let read = read_matrix(body.as_bytes(), |raw| {
            let samples = raw.samples().map(|(at, text)| format!("{at}={}", String::from_utf8_lossy(text)));
            rows.push(format!(
                "{:?} {}",
                raw.labels.values().collect::<Vec<_>>(),
                samples.collect::<Vec<_>>().join(" ")
            ));
            ControlFlow::Continue(())
        });
        (rows, read)
    }

    #[test]
    fn series_come_one_by_one_with_times_in_milliseconds_and_values_as_written() {
        let (rows, envelope) = all(r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"__name__":"a"},"values":[[1700000000.123,"1e+06"],[1700000015,"NaN"]]},
            {"metric":{"__name__":"b"},"values":[]},{"metric":{"__name__":"c"},"histograms":[[1,{"count":"1"}]]}]},
            "warnings":["a store is away"]}"#);
        assert_eq!(rows, [r#"["a"] 1700000000123=1e+06 1700000015000=NaN"#, r#"["b"] "#, r#"["c"] "#]);
        let envelope = envelope.unwrap();
        assert_eq!((envelope.status.as_str(), envelope.warnings.len()), ("success", 1));
    }

    #[test]
    fn what_arrived_before_the_cut_was_handed_over_and_the_cut_is_told() {
        let whole =
            r#"{"status":"success","data":{"result":[{"metric":{},"values":[[1,"2"]]},{"metric":{},"values":[[1,"#;
        let (rows, read) = all(whole);
        assert_eq!(rows.len(), 1);
        assert!(is_cut(&read.unwrap_err()));
        assert!(!is_cut(&all("<html>").1.unwrap_err()));
    }

    #[test]
    fn whoever_has_enough_stops_the_reading() {
        let mut taken = 0;
        let body = r#"{"data":{"result":[{"metric":{},"values":[]},{"metric":{},"values":[]}]}}"#;
        let read = read_matrix(body.as_bytes(), |_| {
            taken += 1;
            ControlFlow::Break(())
        });
        assert!(read.unwrap().stopped && taken == 1);
    }
}
