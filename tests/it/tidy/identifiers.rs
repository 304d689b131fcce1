//! Identifiers keep to the glossary: one term for one thing.

use super::SourceFile;
use super::lines::split;

/// Words that the glossary replaces, and by what.
const BANNED: [(&str, &str); 6] = [
    ("shard", "partition, or lane"),
    ("dlq", "dead_letters"),
    ("poison", "dead_letter"),
    ("topology", "pipeline"),
    ("frontier", "watermark"),
    ("udf", "plugin"),
];

/// Names that the standard library gave.
const NOT_OURS: [&str; 3] = ["PoisonError", "is_poisoned", "clear_poison"];

pub(super) fn no_banned_words(files: &[SourceFile]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files {
        if !file.has_extension(".rs") && !file.has_extension(".wit") {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            for (name, word, instead) in banned_names(line) {
                let place = format!("{}:{}", file.path, index + 1);
                complaints.push(format!("{place}: `{name}`: do not say {word}, say {instead}"));
            }
        }
    }
    complaints
}

fn banned_names(line: &str) -> Vec<(String, &'static str, &'static str)> {
    // Comments and texts may use any word.
    let (code, _) = split(line);
    let names = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut found = Vec::new();
    for name in names.filter(|name| !NOT_OURS.contains(name)) {
        let words = words_of(name);
        let banned =
            BANNED.iter().find(|(word, _)| words.iter().any(|w| w.trim_end_matches('s') == *word));
        if let Some((word, instead)) = banned {
            found.push((name.to_owned(), *word, *instead));
        }
    }
    found
}

/// `JoinShards` and `join_shards` are both `join`, `shards`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let (Some(word), true) = (words.last_mut(), c != '_') {
            word.extend(c.to_lowercase());
        }
    }
    words
}

mod tests {
    use super::super::{assert_no_complaint, assert_one_complaint};
    use super::no_banned_words;

    #[test]
    fn banned_word_in_an_identifier_names_the_right_one() {
        for code in ["struct ShardId;", "let dead_shards = 1;", "fn shard() {}"] {
            assert_one_complaint(no_banned_words, "a.rs", code, "say partition, or lane");
        }
        assert_one_complaint(no_banned_words, "wit/a.wit", "record udf {", "say plugin");
    }

    #[test]
    fn comments_texts_and_names_of_others_are_free() {
        let code = "//! No shard.\nlet a = \"a shard\"; // a shard\nuse std::sync::PoisonError;\n";
        assert_no_complaint(no_banned_words, "a.rs", code);
        assert_no_complaint(no_banned_words, "a.rs", "let sharded = poisonous;");
    }
}
