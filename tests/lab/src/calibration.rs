//! Whether probabilities are what they say, and the coefficients that make them so.

use std::fmt::Write;

/// Bins of the reliability table.
const BINS: usize = 5;

/// The mean distance between what was said and how often it was right, over [`BINS`] bins of equal width, weighted by
/// their sizes (expected calibration error, Guo et al. 2017, <https://arxiv.org/abs/1706.04599>); 0 for nothing.
pub fn error(said: &[(f64, bool)]) -> f64 {
    bins(said).iter().map(|bin| (bin.said - bin.right as f64).abs()).sum::<f64>() / said.len().max(1) as f64
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    n: usize,
    right: usize,
    /// The sum of the probabilities.
    said: f64,
}

fn bins(said: &[(f64, bool)]) -> [Bin; BINS] {
    let mut bins = [Bin::default(); BINS];
    for (p, right) in said {
        let bin = &mut bins[((p * BINS as f64) as usize).min(BINS - 1)];
        bin.n += 1;
        bin.right += usize::from(*right);
        bin.said += p;
    }
    bins
}

/// A row for each bin: what was said on average, and how often it was right.
pub fn table(said: &[(f64, bool)]) -> String {
    let mut out = String::from("| predicted | diagnoses | mean prediction | right |\n|---|---|---|---|\n");
    for (i, bin) in bins(said).iter().enumerate() {
        let percent = |i: usize| 100 * i / BINS;
        let (from, to) = (percent(i), percent(i + 1));
        let share = |of: f64| if bin.n == 0 { "–".to_owned() } else { format!("{:.0} %", 100.0 * of / bin.n as f64) };
        // Writing to a string never fails.
        let _ = writeln!(
            out,
            "| {from}–{to} % | {} | {} | {} ({} of {}) |",
            bin.n,
            share(bin.said),
            share(bin.right as f64),
            bin.right,
            bin.n
        );
    }
    out
}

/// The features of a cause, and whether it was right.
pub type Weighed<const N: usize> = ([f64; N], bool);

/// Coefficients of a logistic regression: a constant, then one for each number. Each set of rows counts as much as another,
/// however large it is. The coefficients are drawn to `prior`, which they keep where the rows say nothing, and keep its signs
/// (but the constant's). By gradient descent with a fixed number of steps: the same rows give the same answer.
pub fn fit<const N: usize>(sets: &[Vec<Weighed<N>>], prior: [f64; N]) -> Vec<f64> {
    const STEPS: usize = 20_000;
    const RATE: f64 = 0.5;
    const RIDGE: f64 = 0.005;
    let mut b: Vec<f64> = std::iter::once(0.0).chain(prior).collect();
    let sets: Vec<&Vec<Weighed<N>>> = sets.iter().filter(|rows| !rows.is_empty()).collect();
    let weighted = |rows: &'_ Vec<Weighed<N>>| 1.0 / (rows.len() * sets.len()) as f64;
    for _ in 0..STEPS {
        let mut slope = vec![0.0; N + 1];
        for ((x, right), weight) in sets.iter().flat_map(|rows| rows.iter().map(|row| (row, weighted(rows)))) {
            let odds = b[0] + x.iter().zip(&b[1..]).map(|(x, b)| x * b).sum::<f64>();
            let off = weight * (1.0 / (1.0 + (-odds).exp()) - f64::from(u8::from(*right)));
            slope[0] += off;
            for (s, x) in slope[1..].iter_mut().zip(x) {
                *s += off * x;
            }
        }
        for (i, (b, s)) in b.iter_mut().zip(&slope).enumerate() {
            let ridge = if i == 0 { 0.0 } else { RIDGE * (*b - prior[i - 1]) };
            *b -= RATE * (s + ridge);
        }
        for (b, prior) in b[1..].iter_mut().zip(prior) {
            if *b * prior < 0.0 {
                *b = 0.0;
            }
        }
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_right_as_often_as_said_has_no_error() {
        let honest = [(0.5, true), (0.5, false), (1.0, true)];
        assert!(error(&honest) < 1e-9);
        let boastful = [(1.0, true), (1.0, false)];
        assert!((error(&boastful) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_fit_finds_what_decides() {
        let rows: Vec<([f64; 2], bool)> = (0..100).map(|i| ([f64::from(i % 10) / 10.0, 0.5], i % 10 > 4)).collect();
        let b = fit(&[rows], [1.0, 1.0]);
        assert!(b[1] > 3.0 && b[1].abs() > 3.0 * b[2].abs(), "{b:?}");
    }
}
