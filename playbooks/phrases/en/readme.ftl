### What stands in README.txt of a bundle.

readme-about = Made by llm-diagnose { $version } at { $made }, about the time from { $from } to { $to }.
readme-page = read this first: any browser opens it, without a network
readme-text = the same as text
readme-tickets = the forms of those whom the cause concerns, filled in, to be pasted; none where it concerns nobody
readme-summary = the same for programs
readme-series = the metrics; `llm-diagnose bundle open` on the whole file loads them and judges once more
readme-queries = every query that was asked, with its result
readme-raw = what each source said
readme-complete = Nothing is missing of what was to be asked.
readme-incomplete = It is not complete. Missing or cut short:
readme-kept = Secrets were left in it on purpose: hand it to nobody who must not know them.
