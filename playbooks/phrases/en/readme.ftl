### What stands in README.txt of a bundle.

readme-about = Made by llm-diagnose { $version } at { $made }, about the time from { $from } to { $to }.
readme-page = read this first: any browser opens it, without a network
readme-text = the same as text
readme-tickets = filled-in ticket forms for the teams or vendors that the cause concerns, if any
readme-summary = the same for programs
readme-series = the metrics; `llm-diagnose bundle open` on the whole file loads them and judges once more
readme-queries = every query that was sent, with its result
readme-raw = what each source said
readme-complete = It is complete: every source answered.
readme-incomplete = It is not complete. Missing or incomplete:
readme-kept = Secrets were deliberately left in: give this file only to people who may see them.
