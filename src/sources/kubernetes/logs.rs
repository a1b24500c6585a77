//! Logs of containers: engines and failing ones first, the start and the last bytes of each log, within a byte budget.

use std::collections::{BTreeMap, VecDeque};

use futures::future::join_all;
use jiff::Timestamp;
use kube::api::LogParams;

use super::ask::{ApiQuery, ApiSession, Failure};
use super::kinds::{LOG, is_name};
use super::{Pod, SnapshotGaps, find};
use ::logs::{HEAD_BYTES, Log, joined};
use knowledge::gap::GapReason;

/// Minimum bytes of one log (if the budget has less, fewer logs are read), and maximum bytes.
const LEAST_BYTES: u64 = 64 << 10;
const MOST_BYTES: u64 = 16 << 20;
/// Low estimate of a line's bytes, with its timestamp: the budget divided by it is the number of lines to request.
const LINE_BYTES: u64 = 100;
/// The server cuts off the end, not the beginning. So the byte limit of the request is `REQUEST_FACTOR` times the
/// budget; if it is exceeded, the request is repeated with fewer lines.
const REQUEST_FACTOR: u64 = 4;
const FEWER_LINES: u64 = 16;
/// The start of a log gets at most its budget divided by this.
const HEAD_SHARE: u64 = 4;

/// A log to read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ContainerLogRequest<'a> {
    namespace: &'a str,
    pod: &'a str,
    container: &'a str,
    previous: bool,
}

/// Reads the pods' logs, at most `bytes` in total; 0 reads none.
pub(super) async fn read_logs(
    ask: ApiSession<'_>,
    pods: &[Pod],
    since: Timestamp,
    bytes: u64,
    missing: &mut SnapshotGaps,
) -> Vec<Log> {
    let mut requests = plan(pods, since);
    if bytes == 0 || requests.is_empty() {
        return Vec::new();
    }
    let most = usize::try_from((bytes / LEAST_BYTES).max(1)).unwrap_or(usize::MAX);
    if requests.len() > most {
        missing.note_absent(
            "logs",
            format!(
                "{} of {} are left out: all together may have {bytes} bytes",
                requests.len() - most,
                requests.len()
            ),
        );
        requests.truncate(most);
    }
    let share = (bytes / requests.len() as u64).min(MOST_BYTES);
    let answers = join_all(requests.iter().map(|requests| read_container_log(ask, requests, since, share))).await;
    let (mut logs, mut failed) = (Vec::new(), BTreeMap::<GapReason, Vec<String>>::new());
    for (log, failure) in answers {
        let name = log.name();
        if !log.text.is_empty() {
            logs.push(log);
        }
        if let Some(failure) = failure {
            failed.entry(GapReason::from(&failure)).or_default().push(name);
        }
    }
    // Hundreds of logs may fail for one reason.
    for (why, names) in failed {
        match names.as_slice() {
            [first, _, _, _, ..] => missing.note(format!("logs of {} containers, such as {first}", names.len()), why),
            few => few.iter().for_each(|name| missing.note(format!("log of {name}"), why.clone())),
        }
    }
    logs
}

/// Selects the logs to read, the most informative first. Pure.
fn plan(pods: &[Pod], since: Timestamp) -> Vec<ContainerLogRequest<'_>> {
    let mut all = Vec::new();
    for pod in pods {
        let trouble = !pod.troubles.is_empty() || pod.containers.iter().any(|c| c.restarts > 0 || c.waiting.is_some());
        for container in pod.containers.iter().filter(|container| is_name(&container.name)) {
            let rank = (!find::is_engine(container), !trouble);
            let log = |previous| ContainerLogRequest {
                namespace: &pod.namespace,
                pod: &pod.name,
                container: &container.name,
                previous,
            };
            let waits = container.waiting.is_some();
            // While a container waits, its current log is that of the previous run; one that never ran has none.
            if container.restarts > 0 && container.ended.as_ref().and_then(|e| e.at).is_none_or(|at| at >= since) {
                all.push((rank, log(true)));
            }
            if !waits {
                all.push((rank, log(false)));
            }
        }
    }
    // The sort is stable: logs of one pod stay together.
    all.sort_by_key(|(rank, _)| *rank);
    all.into_iter().map(|(_, log)| log).collect()
}

async fn read_container_log(
    ask: ApiSession<'_>,
    request: &ContainerLogRequest<'_>,
    since: Timestamp,
    share: u64,
) -> (Log, Option<Failure>) {
    let path = LOG.path("v1", Some(request.namespace));
    let start = (share / HEAD_SHARE).min(HEAD_BYTES);
    let tail_bytes = share - start;
    let mut lines = (tail_bytes / LINE_BYTES).max(1);
    let limit = tail_bytes.saturating_mul(REQUEST_FACTOR);
    let (mut tail, mut result) = (Tail::new(tail_bytes), Ok(()));
    for _ in 0..2 {
        let params = LogParams {
            container: Some(request.container.to_owned()),
            previous: request.previous,
            since_time: Some(since),
            tail_lines: i64::try_from(lines).ok(),
            limit_bytes: i64::try_from(limit).ok(),
            // Engines may leave out the year, the time zone or the whole time.
            timestamps: true,
            ..LogParams::default()
        };
        tail = Tail::new(tail_bytes);
        let take = |piece: &[u8]| {
            tail.take(piece);
            // A server may ignore the requested limit.
            if tail.received > limit.saturating_mul(2) { Err(Failure::TooLarge) } else { Ok(()) }
        };
        result = ask.stream(&path, ApiQuery::Log(request.pod, &params), "get pods/log", take).await;
        if result.is_err() || tail.received < limit {
            break;
        }
        lines = (lines / FEWER_LINES).max(1);
    }
    let mut cut = tail.is_cut() || tail.lines >= lines;
    let mut text = tail.text();
    // The start contains the engine's arguments, long before the failure. Without it the rest is still useful.
    if result.is_ok() && !text.is_empty() {
        let head = head(ask, request, start).await.unwrap_or_default();
        let (head_and_tail, complete) = joined(&head, &text, share);
        cut = !complete && (cut || !head_and_tail.ends_with(&text));
        text = head_and_tail;
    }
    let log = Log {
        source: "kubernetes".to_owned(),
        pod: Some(request.pod.to_owned()),
        container: Some(request.container.to_owned()),
        previous: request.previous,
        text,
        cut,
    };
    let failure = match result {
        // The kubelet has deleted the previous log, or there never was one.
        Err(Failure::Status(400, said)) if request.previous && said.contains("previous terminated container") => None,
        Err(failure) => Some(failure),
        Ok(()) => None,
    };
    (log, failure)
}

/// Reads the first bytes of a container's log.
async fn head(ask: ApiSession<'_>, request: &ContainerLogRequest<'_>, bytes: u64) -> Result<String, Failure> {
    let params = LogParams {
        container: Some(request.container.to_owned()),
        previous: request.previous,
        limit_bytes: i64::try_from(bytes).ok(),
        timestamps: true,
        ..LogParams::default()
    };
    let mut head = Vec::new();
    let take = |piece: &[u8]| {
        head.extend_from_slice(piece);
        if head.len() as u64 > bytes.saturating_mul(2) { Err(Failure::TooLarge) } else { Ok(()) }
    };
    let path = LOG.path("v1", Some(request.namespace));
    ask.stream(&path, ApiQuery::Log(request.pod, &params), "get pods/log", take).await?;
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// A buffer that retains the last bytes of a stream.
#[derive(Debug)]
struct Tail {
    most: usize,
    bytes: VecDeque<u8>,
    received: u64,
    lines: u64,
}

impl Tail {
    fn new(most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self { most, bytes: VecDeque::new(), received: 0, lines: 0 }
    }

    fn take(&mut self, piece: &[u8]) {
        self.received += piece.len() as u64;
        self.lines += piece.iter().filter(|c| **c == b'\n').count() as u64;
        self.bytes.extend(&piece[piece.len().saturating_sub(self.most)..]);
        self.bytes.drain(..self.bytes.len().saturating_sub(self.most));
    }

    fn is_cut(&self) -> bool {
        self.received > self.bytes.len() as u64
    }

    /// Returns the complete lines; invalid UTF-8 is replaced.
    fn text(mut self) -> String {
        if self.is_cut()
            && let Some(end) = self.bytes.iter().position(|c| *c == b'\n')
        {
            self.bytes.drain(..=end);
        }
        String::from_utf8_lossy(self.bytes.make_contiguous()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use findings::cluster::{Container, Ended};

    fn names(pods: &[Pod]) -> Vec<String> {
        let name = |w: &ContainerLogRequest<'_>| {
            format!("{}/{}{}", w.pod, w.container, if w.previous { " (previous)" } else { "" })
        };
        plan(pods, Timestamp::UNIX_EPOCH).iter().map(name).collect()
    }

    fn container(name: &str, image: &str) -> Container {
        Container { name: name.into(), image: image.into(), ..Container::default() }
    }

    #[test]
    fn engines_with_trouble_come_first_and_a_crashed_container_s_last_words_once() {
        let crashed = Container {
            restarts: 3,
            waiting: Some("CrashLoopBackOff".into()),
            ended: Some(Ended::default()),
            ..container("main", "vllm/vllm-openai")
        };
        let pods = [
            Pod {
                name: "a".into(),
                containers: vec![container("proxy", "envoy"), container("main", "vllm")],
                ..Pod::default()
            },
            Pod { name: "b".into(), containers: vec![container("proxy", "envoy"), crashed], ..Pod::default() },
        ];
        assert_eq!(names(&pods), ["b/main (previous)", "a/main", "b/proxy", "a/proxy"]);
    }

    #[test]
    fn a_container_that_never_ran_has_no_log() {
        let waiting = Container { waiting: Some("ImagePullBackOff".into()), ..container("main", "vllm") };
        assert!(names(&[Pod { containers: vec![waiting], ..Pod::default() }]).is_empty());
    }

    #[test]
    fn bytes_that_are_no_text_do_no_harm() {
        let mut tail = Tail::new(100);
        tail.take(b"a\xff\xfeb\n");
        assert!(!tail.is_cut());
        assert_eq!(tail.text(), "a\u{fffd}\u{fffd}b\n");
    }
}
