### What is said about an engine's log.

logs-unknown = UNKNOWN · the engine of this log is not recognised
logs-clean = { $engine } · no error found in this log
logs-still = { $engine } · no error found in this log, but at its end no token is made although { $n ->
    [one] a request runs or waits
   *[other] { $n } requests run or wait
}
logs-not-ready = { $engine } · no error found, and the log ends before the engine serves: it still starts, or was killed from outside
logs-shut-down = { $engine } · no error found in this log; it was shut down in order
logs-root = { $engine } · { $root }
logs-sign = { $n ->
    [one] { $title }
   *[other] { $title }, { $n } times
}
logs-unknown-said = { $said }{ $placed ->
    [0] {""}
   *[other] {" "}in { $place }
  }; nothing is known about it yet
logs-by-place = { $title }: { $said }{ $placed ->
    [0] {""}
   *[other] {" "}in { $place }
  }
logs-then = { $first }; then { $then }
logs-any-engine = engine not recognised
logs-unknown-title = Error lines that are not known
logs-unknown-count = { $n ->
    [one] One error line, or a traceback, that no finding explains{ $harmless ->
        [0] {""}
       *[other] ; it did no harm, the engine served after it or was being stopped
    }:
   *[other] { $n } error lines or tracebacks that no finding explains{ $harmless ->
        [0] {""}
       *[other] ; they did no harm, the engine served after them or was being stopped
    }; the first and the most frequent:
}
logs-unknown-line = { $n ->
    [one] line { $line }: { $text }
   *[other] line { $line }, { $n } times with other numbers: { $text }
}
logs-secondary-only = { $engine } · only consequences of a failure stand in this log: what began it was written before, or elsewhere
logs-span = { $lines ->
    [one] 1 line
   *[other] { $lines } lines
  }, { $from } to { $to }
logs-span-untimed = { $lines ->
    [one] 1 line, without times
   *[other] { $lines } lines, without times
  }
logs-first-root = It began here
logs-raised = Raised in { $place }.
logs-thread-ended = Only a thread ended. The process may go on and answer its health checks while requests hang; restart it if they do.
logs-order = The first error of each log, in order
logs-in-turn = { $timed ->
    [0] {""}
   *[other] { $when } ·{" "}
  }{ $name }: { $root }
logs-line = line { $line }, { $when }: { $text }
logs-line-untimed = line { $line }: { $text }
logs-findings = Known lines, in order; harmless lines last
logs-finding = { $timed ->
    [0] {""}
   *[other] { $when } ·{" "}
  }**{ $title }** ({ $rank }{ $count ->
    [one] {""}
   *[other] , { $count } times
  }), line { $line }
logs-rank-root = root error
logs-rank-sign = possible symptom
logs-rank-secondary = follows from another error
logs-rank-benign = harmless
logs-startup = Start-up settings
logs-statistics = While it served
logs-learn = Known are the logs of { $engines }. Name one with `--engine`.
logs-root-of = { $name } · { $root }
logs-all-clean = Nothing in these { $n } logs went wrong
logs-no-root = These { $n } logs do not show the root error
logs-several = { $n } logs, { $rooted ->
    [0] none of them with a root error
    [one] one of them with a root error
   *[other] { $rooted } of them with a root error; the earliest one is above
  }
logs-of-pod = Of the pod { $pod }
logs-cut = It is larger than what is read: its beginning is missing here
logs-column-lowest = lowest
logs-column-middle = middle
logs-column-highest = highest
logs-column-last = last

## beside a diagnosis

fact-log = { $n ->
    [0] { $fact } (in the logs)
    [one] { $fact } (in { $names }'s log)
   *[other] { $fact } (in the logs of { $names })
  }
logs-began = The log of { $name } says how it began: { $root }{ $timed ->
    [0] {""}
   *[other] , at { $when }
  }
logs-began-unknown = The first error in the log of { $name } is in line { $line }{ $timed ->
    [0] {""}
   *[other] , at { $when }
  }{ $named ->
    [0] {""}
   *[other] {" "}({ $root })
  }; nothing is known about it yet
logs-say-nothing = The logs of { $names } do not show the root error
logs-missing = Not read, { $what }: { $why }{ $more ->
    [0] {""}
   *[other] {" "}(and { $more } more)
  }
