//! The tenants of a report: who caused the load, who suffered, and what each sent.

use super::table;
use crate::Phrases;
use findings::facts::TenantUse;
use knowledge::signal::{Unit, format_value};
use message::{Block, Line};

/// The least growth of all tokens, and the least share of failures, that is worth a sentence.
const GROWTH: f64 = 1.2;
const FAILED: f64 = 0.01;

/// Builds who caused the load, who suffered, and the numbers of each tenant; nothing without tenants.
pub(super) fn tenants(tenants: &[TenantUse], words: &Phrases) -> Vec<Block> {
    let row = |tenant: &TenantUse| {
        let rate = |now: f64, before: f64, unit: Unit| {
            let line = Line::default().plain(format_value(now, unit));
            if before > 0.0 { line.plain(format!(" ({:.1}x)", now / before)) } else { line }
        };
        vec![
            Line::default().code(&tenant.who),
            rate(tenant.requests, tenant.requests_before, Unit::RequestsPerSecond),
            rate(tenant.tokens, tenant.tokens_before, Unit::TokensPerSecond),
            Line::of(&format_value(share(tenant.failed, tenant.requests), Unit::Ratio)),
            tenant.first_token_p99.map(|p99| Line::of(&format_value(p99, Unit::Seconds))).unwrap_or_default(),
        ]
    };
    let heads = ["tenant-who", "tenant-requests", "tenant-tokens", "tenant-failed", "tenant-first-token"];
    vec![
        Block::Paragraph(caused(tenants, words).unwrap_or_default()),
        Block::Paragraph(suffered(tenants, words).unwrap_or_default()),
        table("report-tenants", &heads, tenants.iter().map(row), words),
    ]
}

fn share(part: f64, of: f64) -> f64 {
    if of > 0.0 { (part / of).clamp(0.0, 1.0) } else { 0.0 }
}

/// Names the tenant with most of the added tokens, if all together sent clearly more than before.
fn caused(tenants: &[TenantUse], words: &Phrases) -> Option<Line> {
    let (before, now) = tenants.iter().fold((0.0, 0.0), |(b, n), one| (b + one.tokens_before, n + one.tokens));
    let added = |tenant: &TenantUse| tenant.tokens - tenant.tokens_before;
    let most = tenants.iter().max_by(|a, b| added(a).total_cmp(&added(b)))?;
    let has_grown = before > 0.0 && now > GROWTH * before;
    has_grown.then(|| {
        // What others sent less does not make its part larger than the whole.
        let part = share(added(most), tenants.iter().map(added).filter(|more| *more > 0.0).sum());
        let pieces = [
            ("who", Line::default().code(&most.who).into()),
            ("share", format_value(part, Unit::Ratio).into()),
            ("times", format!("{:.1}", now / before).into()),
        ];
        words.line("tenant-caused", &pieces)
    })
}

/// Names the tenant with the most failed requests, if any fail.
fn suffered(tenants: &[TenantUse], words: &Phrases) -> Option<Line> {
    let worst = tenants.iter().max_by(|a, b| a.failed.total_cmp(&b.failed))?;
    let of_its_own = share(worst.failed, worst.requests);
    (of_its_own >= FAILED).then(|| {
        let pieces = [
            ("who", Line::default().code(&worst.who).into()),
            ("share", format_value(of_its_own, Unit::Ratio).into()),
            ("rate", format_value(worst.failed, Unit::RequestsPerSecond).into()),
        ];
        words.line("tenant-suffered", &pieces)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(who: &str, tokens: [f64; 2], failed: f64) -> TenantUse {
        let [tokens_before, tokens] = tokens;
        TenantUse { who: who.to_owned(), tokens_before, tokens, requests: 10.0, failed, ..TenantUse::default() }
    }

    fn said(all: &[TenantUse]) -> [String; 2] {
        let words = Phrases::english();
        [caused(all, &words), suffered(all, &words)].map(|line| line.map(|line| line.text()).unwrap_or_default())
    }

    #[test]
    fn who_added_most_and_whose_requests_fail_are_two_tenants() {
        let [cause, victim] = said(&[tenant("batch", [100.0, 900.0], 0.0), tenant("chat", [400.0, 300.0], 2.0)]);
        assert!(cause.contains("batch") && cause.contains("100 %") && cause.contains("2.4 times"), "{cause}");
        assert!(victim.contains("chat") && victim.contains("20 %"), "{victim}");
    }

    #[test]
    fn nobody_is_named_where_nothing_grew_and_nothing_fails() {
        assert_eq!(said(&[tenant("a", [100.0, 110.0], 0.0), tenant("b", [100.0, 100.0], 0.05)]), ["", ""]);
        assert_eq!(said(&[tenant("new", [0.0, 100.0], 0.0)]), ["", ""], "no past to compare with");
    }
}
