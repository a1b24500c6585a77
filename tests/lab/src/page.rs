//! Pages of which several commands make a part each.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Writes the part of a page between `<!-- NAME -->` and `<!-- /NAME -->`; what stands around it stays.
///
/// # Errors
/// When the page cannot be read or written, or lacks the two marks.
pub fn put_part(path: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let page = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let page = with_part(&page, name, text)
        .with_context(|| format!("{} lacks `<!-- {name} -->` before `<!-- /{name} -->`", path.display()))?;
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

fn with_part(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let from = page.find(&begin)? + begin.len();
    let to = from + page[from..].find(&end)?;
    Some(format!("{}{}\n{}", &page[..from], text.trim_end(), &page[to..]))
}

#[cfg(test)]
mod tests {
    use super::with_part;

    #[test]
    fn one_part_is_replaced_and_the_rest_stays() {
        let page = "# Page\n<!-- a -->\nold\n<!-- /a -->\n<!-- b -->\n<!-- /b -->\nend\n";
        let page = with_part(page, "a", "new\n").and_then(|page| with_part(&page, "b", "more")).unwrap();
        assert_eq!(page, "# Page\n<!-- a -->\nnew\n<!-- /a -->\n<!-- b -->\nmore\n<!-- /b -->\nend\n");
        assert_eq!(with_part(&page, "c", ""), None);
    }
}
