//! The fleet health page.

use std::slice;

use maud::{Markup, html};

use super::document::blocks;
use super::html::{line, moment};
use super::{Page, UpdateMode};
use crate::Phrases;
use crate::document::drop_empty;
use crate::health::{HealthWords, PoolWords, checks, missing, state, word};
use findings::health::Health;
use message::{Block, BlockGroup, DocumentBlock, Folding};

/// Seconds between two polls of the page.
const EVERY: u32 = 15;

/// Renders the fleet health page.
pub fn health_page(health: &Health, words: &Phrases) -> String {
    let title = words.text("page-health", &[]);
    let told = HealthWords::new(health, words);
    let heading = format!("{title}: {}", word(health.state, words));
    let body = html! {
        div #now data-part {
            p.above { (line(&state(health.state, words))) (moment(health.at)) }
            h1 { (title) }
        }
        div #pools data-part {
            @for note in &told.notes { p.none { (line(note)) } }
            @if told.pools.len() != 1 {
                section.card aria-labelledby="summary" {
                    h2 #summary { (told.counted) }
                    @if !told.pools.is_empty() { (blocks(&[told.summary(words)], words)) }
                }
            }
            @for (i, pool) in told.pools.iter().enumerate() { (pool_card(i, pool, words)) }
            @if !told.foot.is_empty() { p.foot { (line(&told.foot)) } }
        }
    };
    Page { title: &heading, place: "/health", kept: UpdateMode::Live { every: EVERY, alone: true }, body }.html(words)
}

fn pool_card(i: usize, pool: &PoolWords<'_>, words: &Phrases) -> Markup {
    let fold = |key: &str, title: &str, n: usize, part: Block| {
        let (key, title) = (format!("{}/{key}", pool.name), words.line(title, &[("n", n.into())]));
        Block::Document(DocumentBlock::Group(BlockGroup { key, title, folding: Folding::Closed, parts: vec![part] }))
    };
    let missing = Block::Section(String::new(), missing(slice::from_ref(pool), usize::MAX, words));
    let mut parts = vec![
        checks("bad", &pool.name, &pool.wrong, words),
        fold("seen", "page-in-order", pool.seen.len(), checks("seen", &pool.name, &pool.seen, words)),
        fold("unseen", "page-unseen", pool.missing.len(), missing),
    ];
    drop_empty(&mut parts);
    html! {
        section.card id={ "pool-" (i) } {
            p.above { (line(&state(pool.health.state, words))) (pool.about) }
            h2 { (pool.name) }
            (blocks(&parts, words))
        }
    }
}
