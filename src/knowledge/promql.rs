//! The one way from a text to PromQL's tree.

use std::time::Duration;

use promql_parser::parser::{Expr, Offset, VectorSelector};

/// Maximum depth of an expression: parser, printer and visitors recurse by it, and a stack that overflows ends the
/// process. Two MiB, the stack of a thread, are enough for twice as many.
const DEEPEST: usize = 500;

/// Parses an expression; the text may be anybody's.
///
/// # Errors
/// If it is no PromQL, or may be deeper than any query that people write.
pub fn parse(text: &str) -> Result<Expr, String> {
    let depth = may_be_deep(text);
    if depth > DEEPEST {
        return Err(format!("its operators and parentheses may lie {depth} deep, the most are {DEEPEST}"));
    }
    #[expect(clippy::disallowed_methods, reason = "the one place that may")]
    promql_parser::parser::parse(text)
}

/// Calls `visit` for every selector of an expression, with how far back it reads, `back` included.
pub fn visit_selectors<'e>(expr: &'e Expr, back: Duration, visit: &mut dyn FnMut(&'e VectorSelector, Duration)) {
    let offset_of = |offset: &Option<Offset>| match offset {
        Some(Offset::Pos(by)) => *by,
        Some(Offset::Neg(_)) | None => Duration::ZERO,
    };
    match expr {
        Expr::Binary(b) => [&b.lhs, &b.rhs].into_iter().for_each(|side| visit_selectors(side, back, visit)),
        Expr::Aggregate(a) => {
            [Some(&a.expr), a.param.as_ref()].into_iter().flatten().for_each(|part| visit_selectors(part, back, visit));
        }
        Expr::Paren(p) => visit_selectors(&p.expr, back, visit),
        Expr::Unary(u) => visit_selectors(&u.expr, back, visit),
        Expr::Subquery(s) => {
            let back = back.saturating_add(s.range).saturating_add(offset_of(&s.offset));
            visit_selectors(&s.expr, back, visit);
        }
        Expr::Call(c) => c.args.args.iter().for_each(|arg| visit_selectors(arg, back, visit)),
        Expr::VectorSelector(selected) => visit(selected, back.saturating_add(offset_of(&selected.offset))),
        Expr::MatrixSelector(m) => {
            visit(&m.vs, back.saturating_add(m.range).saturating_add(offset_of(&m.vs.offset)));
        }
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => {}
    }
}

/// Returns an upper bound of an expression's depth: in each pair of parentheses the operators and the deepest pair
/// inside. Strings, comments and matchers end where they do for the parser's own lexer.
fn may_be_deep(text: &str) -> usize {
    // The operators and the deepest pair so far, of every open pair.
    let (mut open, mut here) = (Vec::new(), (0_usize, 0_usize));
    let (mut quote, mut in_braces, mut word) = (None, false, String::new());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if let Some(opened) = quote {
            match c {
                '\\' => _ = chars.next(),
                _ => quote = quote.filter(|_| c != opened),
            }
            continue;
        }
        if c.is_ascii_alphanumeric() || matches!(c, '_' | ':') {
            word.push(c.to_ascii_lowercase());
            continue;
        }
        let is_operator = matches!(word.as_str(), "or" | "and" | "unless" | "atan2");
        here.0 += usize::from(is_operator && !in_braces);
        word.clear();
        match c {
            '"' | '\'' | '`' => quote = Some(c),
            '#' => _ = chars.by_ref().find(|c| matches!(c, '\r' | '\n')),
            '{' => in_braces = true,
            '}' => in_braces = false,
            _ if in_braces => {}
            '(' => open.push(std::mem::take(&mut here)),
            ')' => {
                let inside = here.0 + here.1 + 1;
                here = open.pop().unwrap_or_default();
                here.1 = here.1.max(inside);
            }
            '[' | '+' | '-' | '*' | '/' | '%' | '^' | '=' | '!' | '<' | '>' | '@' => here.0 += 1,
            _ => {}
        }
    }
    here.0 + here.1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{DEEPEST, may_be_deep, parse, visit_selectors};

    #[test]
    fn no_text_overflows_the_stack() {
        for n in [DEEPEST / 2, 100_000] {
            let again = |text: &str| text.repeat(n);
            for text in [
                format!("{}1{}", again("("), again(")")),
                format!("{}a", again("-")),
                format!("a{}", again("+a")),
                format!("a{}", again(" oR\na")),
                format!("a{}", again("\"\" or a")),
                format!("# '\r a{}", again("==1")),
                format!("'\\'' + {}a{}", again("abs("), again(")")),
                format!("{{a=\"'{{\"}} + {}a{}", again("sum("), again(")")),
                format!("{}a{}", again("max_over_time("), again("[1m:1m])")),
            ] {
                let parsed = parse(&text).map(|expr| expr.to_string());
                assert!(n <= DEEPEST || parsed.is_err(), "{}", &text[..80]);
            }
        }
    }

    #[test]
    fn a_reach_beyond_all_times_is_the_longest_one() {
        let (open, close) = ("max_over_time(".repeat(70), "[4294967295y:1s] offset 4294967295y)".repeat(70));
        let parsed = parse(&format!("{open}a{close}")).unwrap();
        let mut reach = Vec::new();
        visit_selectors(&parsed, Duration::ZERO, &mut |_, back| reach.push(back));
        assert_eq!(reach, [Duration::MAX]);
    }

    #[test]
    fn strings_comments_and_matchers_do_not_nest() {
        assert_eq!(may_be_deep("sum by (a) (rate(x{b=~\"(-)+\", c!='\\'('}[5m])) # - -\n or `+`"), 4);
    }

    #[test]
    fn every_query_of_the_catalog_is_far_below_the_limit() {
        let library = crate::playbook::load(None).unwrap();
        let queries = library.engines.values().flat_map(|e| e.signals.values()).filter_map(|s| s.query.as_deref());
        let most = queries.map(may_be_deep).max().unwrap();
        assert!(most * 2 < DEEPEST, "{most}");
    }
}
