//! Mutation of valid inputs.

use crate::dice::Dice;

/// Tokens that often break parsers.
const TOKENS: [&str; 28] = [
    "",
    "\n",
    "\n\n",
    "\r\n",
    "=",
    "==",
    "\"",
    "\\",
    "\"\\",
    "\0",
    " ",
    "\t",
    "0",
    "-1",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "1e9",
    "[not set]",
    "@",
    "+",
    "\u{2514}\u{2500}",
    "\u{251c}\u{2500}",
    "\u{2502} ",
    "...",
    "16min 55.434s",
    "kubelet.service",
    "\u{feff}\u{202e}\u{1f525}\u{fe0f}",
];

/// A mutated input. Invalid UTF-8 is replaced, as `kiln` does.
pub(crate) fn mutated(dice: &mut Dice, corpus: &[String]) -> String {
    let mut bytes = corpus[dice.place(corpus.len())].clone().into_bytes();
    // Few mutations most of the time: a thoroughly broken input is rejected at its first line.
    let most = if dice.chance(4) { 40 } else { 4 };
    for _ in 0..=dice.place(most) {
        change(dice, &mut bytes, corpus);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn change(dice: &mut Dice, bytes: &mut Vec<u8>, corpus: &[String]) {
    let (from, until) = range(dice, bytes.len());
    match dice.below(10) {
        0 if !bytes.is_empty() => {
            let index = dice.place(bytes.len());
            bytes[index] ^= 1 << dice.below(8);
        }
        1 => drop(bytes.drain(from..until)),
        2 => bytes.truncate(from),
        3 => {
            let again = bytes[from..until].repeat(1 + dice.place(3));
            bytes.splice(from..from, again);
        }
        4 | 5 => drop(bytes.splice(from..from, TOKENS[dice.place(TOKENS.len())].bytes())),
        6 => drop(bytes.splice(from..until, TOKENS[dice.place(TOKENS.len())].bytes())),
        7 => swap_lines(dice, bytes),
        8 => replace_number(dice, bytes),
        _ => {
            let other = corpus[dice.place(corpus.len())].as_bytes();
            let (start, end) = range(dice, other.len());
            bytes.splice(from..from, other[start..end].iter().copied());
        }
    }
}

/// A random range, mostly short.
fn range(dice: &mut Dice, length: usize) -> (usize, usize) {
    let from = dice.place(length + 1);
    let longest = if dice.chance(8) { length } else { 40 };
    (from, (from + dice.place(longest + 1)).min(length))
}

/// Swaps two lines.
fn swap_lines(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let mut all: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let (one, other) = (dice.place(all.len()), dice.place(all.len()));
    all.swap(one, other);
    *bytes = all.join(&b'\n');
}

/// Replaces a number.
fn replace_number(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let start = dice.place(bytes.len() + 1);
    let Some(from) = (start..bytes.len()).find(|index| bytes[*index].is_ascii_digit()) else { return };
    let until = (from..bytes.len()).find(|index| !bytes[*index].is_ascii_digit()).unwrap_or(bytes.len());
    let other = match dice.below(5) {
        0 => u64::MAX.to_string(),
        1 => "0".to_owned(),
        2 => format!("{}{}", u64::MAX, dice.below(10)),
        3 => dice.below(1 << 31).to_string(),
        _ => (u64::MAX / (1 + dice.below(9))).to_string(),
    };
    bytes.splice(from..until, other.into_bytes());
}
