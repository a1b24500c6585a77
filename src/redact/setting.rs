//! Settings whose names mark a secret.

/// Words in a setting's name that mark a secret.
const SECRET_WORDS: [&str; 8] = ["key", "apikey", "token", "secret", "password", "passwd", "credential", "credentials"];

/// Returns true if a setting's name marks a secret.
pub fn is_secret(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    last.split(['_', '-']).any(|word| SECRET_WORDS.contains(&word))
}
