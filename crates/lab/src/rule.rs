//! The rule of a claim: an inequality between measurements, parsed from the plan and evaluated in one world at a
//! time. Reports the numbers that decided. Knows no claim and no file.
//!
//! ```text
//! rule   := sum ('>=' | '<=' | '>' | '<') sum
//! sum    := term (('+' | '-') term)*          term := factor (('*' | '/') factor)*
//! factor := number | '-' factor | '(' sum ')' | function '(' sum ')' | measure [ '{' label '=' value ',' ... '}' ]
//! function: abs, min, max, mean, spread (largest less smallest, as a share of the smallest), count
//! ```
//!
//! A measure stands for the median of its repetitions. In a scalar context, the labels must select one measurement.
//! Inside a function they may select several, and arithmetic pairs those whose other labels agree:
//! `mean(packets{mode=new} / packets{mode=old})` is the mean of the ratios of all networks. `each` repeats a rule for
//! every value of a label: `packets{mode=http10,network=$network}`.

mod planned;

use crate::observation::{Labels, Observations, World, with_each};
use crate::statistics::least_p;
use std::collections::BTreeMap;

pub use planned::Planned;

/// Repetitions on each side that a rank test needs. With fewer, the least possible p is above 0.05.
const REPETITIONS_MIN: usize = 5;

/// A number this close to the constant that it is compared with, as a share of the constant, decides nothing.
pub const BORDER: f64 = 0.01;

/// A rule: source text and syntax tree.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    left: Term,
    sign: Sign,
    right: Term,
    each: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    AtLeast,
    AtMost,
    Above,
    Below,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Number(f64),
    Measure(String, Labels),
    Call(Function, Box<Term>),
    Pair(Box<Term>, char, Box<Term>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Abs,
    Min,
    Max,
    Mean,
    Spread,
    Count,
}

/// The measurements that a value was computed from.
#[derive(Debug, Default)]
struct Used {
    /// Names of the results; may contain duplicates.
    sources: Vec<String>,
    /// Smallest number of repetitions; `None` for constants alone.
    fewest: Option<usize>,
}

/// The result of a rule in one world.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It could not be evaluated; names what is missing.
    Missing(String),
    /// It was evaluated.
    Evaluated {
        /// Number of combinations of `each`.
        checked: usize,
        /// Number of combinations in which it held.
        held: usize,
        /// Least and largest value of the left side.
        range: (f64, f64),
        /// The combination that came closest to failing or failed by most, with its numbers.
        worst: String,
        /// Names of the results used.
        sources: Vec<String>,
        /// Smallest number of repetitions of a measurement used.
        fewest: usize,
        /// Number of combinations in which it holds if the constant on its right side moves by [`BORDER`] against it.
        held_strictly: usize,
        /// The same, if the constant moves in its favor.
        held_leniently: usize,
    },
}

impl Rule {
    /// Parses a rule; `each` maps names to their values, with `*` for all.
    ///
    /// # Errors
    /// The fault and its character position.
    pub fn parse(text: &str, each: &BTreeMap<String, Vec<String>>) -> Result<Rule, String> {
        let mut reader = Reader { rest: text, text };
        let left = reader.sum()?;
        let sign = reader.sign()?;
        let right = reader.sum()?;
        if !reader.rest.trim().is_empty() {
            return Err(reader.fault("the end"));
        }
        Ok(Rule {
            text: text.to_owned(),
            left,
            sign,
            right,
            each: each.clone(),
        })
    }

    /// Source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names of the measures, without duplicates.
    pub fn measures(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.left.measures(&mut found);
        self.right.measures(&mut found);
        found.dedup();
        found
    }

    /// Evaluates the rule with the observations of a world.
    pub fn evaluate(&self, known: &Observations, world: World) -> Outcome {
        let mut checked = 0;
        let mut held = 0;
        let (mut held_strictly, mut held_leniently) = (0, 0);
        let mut range = (f64::INFINITY, f64::NEG_INFINITY);
        let mut worst: Option<(f64, String)> = None;
        let mut sources = Vec::new();
        let mut missing = None;
        let mut fewest = usize::MAX;
        for chosen in self.combinations(known, world) {
            let mut used = Used::default();
            let pair = self
                .left
                .value(known, world, &chosen, &mut used)
                .and_then(|left| Ok((left, self.right.value(known, world, &chosen, &mut used)?)));
            let (left, right) = match pair {
                Ok((left, right)) if left.is_finite() && right.is_finite() => (left, right),
                Ok(_) => {
                    missing.get_or_insert("a division by zero".to_owned());
                    continue;
                }
                Err(what) => {
                    missing.get_or_insert(what);
                    continue;
                }
            };
            checked += 1;
            let holds = self.sign.holds(left, right);
            held += usize::from(holds);
            // A bound that is itself measured, or 0, has no border.
            let border = match self.right {
                Term::Number(bound) => BORDER * bound.abs(),
                _ => 0.0,
            };
            held_strictly += usize::from(self.sign.holds(left, self.sign.moved(right, border)));
            held_leniently += usize::from(self.sign.holds(left, self.sign.moved(right, -border)));
            range = (range.0.min(left), range.1.max(left));
            fewest = fewest.min(used.fewest.unwrap_or(usize::MAX));
            for source in used.sources {
                if !sources.contains(&source) {
                    sources.push(source);
                }
            }
            let margin = self.sign.margin(left, right);
            if worst.as_ref().is_none_or(|(least, _)| margin < *least) {
                let place: Vec<String> = chosen
                    .iter()
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect();
                let place = if place.is_empty() {
                    String::new()
                } else {
                    format!("{}: ", place.join(", "))
                };
                let says = if holds {
                    self.sign.text()
                } else {
                    self.sign.denied()
                };
                let rank = self.left.rank_test(known, world, &chosen);
                let rank = rank
                    .map(|(p, is_least)| {
                        let least = if is_least { ", the least possible" } else { "" };
                        format!(" (rank test: p {}{least})", short(p))
                    })
                    .unwrap_or_default();
                let text = format!("{place}{} {says} {}{rank}", short(left), short(right));
                worst = Some((margin, text));
            }
        }
        match worst {
            None => Outcome::Missing(missing.unwrap_or_else(|| "no measurement".to_owned())),
            Some((_, worst)) => Outcome::Evaluated {
                checked,
                held,
                range,
                worst,
                sources,
                fewest,
                held_strictly,
                held_leniently,
            },
        }
    }

    /// The rule for the measures and labels of a counterfactual: measures renamed by `measures`, each with `labels`
    /// added.
    pub fn rewritten(&self, measures: &BTreeMap<String, String>, labels: &Labels) -> Rule {
        Rule {
            left: self.left.rewritten(measures, labels),
            right: self.right.rewritten(measures, labels),
            ..self.clone()
        }
    }

    /// The `each` values that the rule uses, by label.
    fn named(&self) -> impl Iterator<Item = (&String, &Vec<String>)> {
        self.each
            .iter()
            .filter(|(name, _)| self.text.contains(&format!("${name}")))
    }

    /// All combinations of the `each` values that the rule uses.
    fn combinations(&self, known: &Observations, world: World) -> Vec<Labels> {
        let mut all = vec![Labels::new()];
        for (name, values) in self.named() {
            let values = if values.iter().any(|value| value == "*") {
                let mut found: Vec<String> = Vec::new();
                for measure in self.measures() {
                    for value in known.values_of(world, measure, name) {
                        if !found.contains(&value) {
                            found.push(value);
                        }
                    }
                }
                found
            } else {
                values.clone()
            };
            all = with_each(&all, name, &values);
        }
        all
    }
}

/// The number in few digits.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    let digits = match magnitude {
        m if m >= 1000.0 || value == value.trunc() && m < 1e9 => 0,
        m if m >= 100.0 => 1,
        m if m >= 10.0 => 2,
        m if m >= 0.1 => 3,
        m if m >= 0.001 => 5,
        _ => return format!("{value:.2e}"),
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

impl Sign {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Sign::AtLeast => left >= right,
            Sign::AtMost => left <= right,
            Sign::Above => left > right,
            Sign::Below => left < right,
        }
    }

    /// The bound made harder to meet by this much.
    fn moved(self, bound: f64, by: f64) -> f64 {
        match self {
            Sign::AtLeast | Sign::Above => bound + by,
            Sign::AtMost | Sign::Below => bound - by,
        }
    }

    /// Distance from failing; below zero the rule fails.
    fn margin(self, left: f64, right: f64) -> f64 {
        match self {
            Sign::AtLeast | Sign::Above => left - right,
            Sign::AtMost | Sign::Below => right - left,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Sign::AtLeast => "≥",
            Sign::AtMost => "≤",
            Sign::Above => ">",
            Sign::Below => "<",
        }
    }

    fn denied(self) -> &'static str {
        match self {
            Sign::AtLeast => "is not ≥",
            Sign::AtMost => "is not ≤",
            Sign::Above => "is not >",
            Sign::Below => "is not <",
        }
    }
}

impl Term {
    fn rewritten(&self, measures: &BTreeMap<String, String>, extra: &Labels) -> Term {
        let inside = |term: &Term| Box::new(term.rewritten(measures, extra));
        match self {
            Term::Number(number) => Term::Number(*number),
            Term::Measure(name, labels) => {
                let mut labels = labels.clone();
                labels.extend(extra.clone());
                Term::Measure(measures.get(name).unwrap_or(name).clone(), labels)
            }
            Term::Call(function, inner) => Term::Call(*function, inside(inner)),
            Term::Pair(left, sign, right) => Term::Pair(inside(left), *sign, inside(right)),
        }
    }

    fn measures<'t>(&'t self, found: &mut Vec<&'t str>) {
        match self {
            Term::Number(_) => {}
            Term::Measure(name, _) => found.push(name),
            Term::Call(_, inner) => inner.measures(found),
            Term::Pair(left, _, right) => {
                left.measures(found);
                right.measures(found);
            }
        }
    }

    fn value(
        &self,
        known: &Observations,
        world: World,
        chosen: &Labels,
        used: &mut Used,
    ) -> Result<f64, String> {
        let values = self.values(known, world, chosen, used)?;
        match values.as_slice() {
            [(_, one)] => Ok(*one),
            many => Err(format!(
                "{} matches {} measurements: add labels",
                self.shown(chosen),
                many.len()
            )),
        }
    }

    /// All values with the labels that distinguish them; a number or function has none.
    fn values(
        &self,
        known: &Observations,
        world: World,
        chosen: &Labels,
        used: &mut Used,
    ) -> Result<Vec<(Labels, f64)>, String> {
        match self {
            Term::Number(number) => Ok(vec![(Labels::new(), *number)]),
            Term::Measure(name, labels) => {
                let labels = filled(labels, chosen);
                let groups = known.select(world, name, &labels);
                if groups.is_empty() {
                    return Err(format!("no {}", self.shown(chosen)));
                }
                used.sources
                    .extend(groups.iter().flat_map(|group| group.sources.iter().cloned()));
                let fewest = groups.iter().map(|group| group.values.len()).min();
                used.fewest = used.fewest.into_iter().chain(fewest).min();
                let free = |group: &crate::observation::Group| {
                    let mut free = group.labels.clone();
                    free.retain(|name, _| !labels.contains_key(name));
                    (free, group.median())
                };
                Ok(groups.iter().map(free).collect())
            }
            Term::Call(function, inner) => {
                let values = inner.values(known, world, chosen, used)?;
                if *function == Function::Abs {
                    return Ok(values
                        .into_iter()
                        .map(|(free, value)| (free, value.abs()))
                        .collect());
                }
                let values: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
                Ok(vec![(Labels::new(), function.of(&values))])
            }
            Term::Pair(left, sign, right) => {
                let left = left.values(known, world, chosen, used)?;
                let right = right.values(known, world, chosen, used)?;
                pairs(left, right)?
                    .into_iter()
                    .map(|(free, left, right)| {
                        let value = match sign {
                            '+' => left + right,
                            '-' => left - right,
                            '*' => left * right,
                            _ => left / right,
                        };
                        Ok((free, value))
                    })
                    .collect()
            }
        }
    }

    /// Rank test of one measurement against another: the probability of such different ranks without a difference,
    /// and whether it is the least possible for so few repetitions. `None` with fewer than [`REPETITIONS_MIN`] on a
    /// side.
    fn rank_test(&self, known: &Observations, world: World, chosen: &Labels) -> Option<(f64, bool)> {
        let Term::Pair(left, '/', right) = self else {
            return None;
        };
        let repetitions = |term: &Term| -> Option<Vec<f64>> {
            let Term::Measure(name, labels) = term else {
                return None;
            };
            let mut groups = known.select(world, name, &filled(labels, chosen));
            let group = groups.pop().filter(|_| groups.is_empty())?;
            (group.values.len() >= REPETITIONS_MIN).then_some(group.values)
        };
        let (left, right) = (repetitions(left)?, repetitions(right)?);
        let p = units::ranks(&left, &right).1;
        // Ties may move p by rounding.
        Some((p, p <= least_p(left.len(), right.len()) * 1.000_001))
    }

    fn shown(&self, chosen: &Labels) -> String {
        match self {
            Term::Measure(name, labels) => {
                let labels: Vec<String> = filled(labels, chosen)
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                format!("{name}{{{}}}", labels.join(","))
            }
            _ => "a part".to_owned(),
        }
    }
}

/// Pairs the operands of arithmetic: one value with every other, or values with equal labels.
///
/// # Errors
/// Several values on both sides whose labels differ.
fn pairs(left: Vec<(Labels, f64)>, right: Vec<(Labels, f64)>) -> Result<Vec<(Labels, f64, f64)>, String> {
    match (left.as_slice(), right.as_slice()) {
        ([(_, left)], [(_, right)]) => Ok(vec![(Labels::new(), *left, *right)]),
        ([(_, left)], _) => Ok(right
            .into_iter()
            .map(|(free, right)| (free, *left, right))
            .collect()),
        (_, [(_, right)]) => Ok(left
            .into_iter()
            .map(|(free, left)| (free, left, *right))
            .collect()),
        _ => {
            let known: BTreeMap<&Labels, f64> = right.iter().map(|(free, value)| (free, *value)).collect();
            let paired: Option<Vec<_>> = left
                .iter()
                .map(|(free, left)| Some((free.clone(), *left, *known.get(free)?)))
                .collect();
            paired
                .filter(|paired| paired.len() == right.len())
                .ok_or_else(|| "the labels of the two sides do not match".to_owned())
        }
    }
}

/// The labels with `$name` replaced by its chosen value, longer names first.
fn filled(labels: &Labels, chosen: &Labels) -> Labels {
    let mut names: Vec<&String> = chosen.keys().collect();
    names.sort_by_key(|name| core::cmp::Reverse(name.len()));
    let value = |given: &String| {
        names.iter().fold(given.clone(), |text, name| {
            text.replace(&format!("${name}"), &chosen[*name])
        })
    };
    labels
        .iter()
        .map(|(name, given)| (name.clone(), value(given)))
        .collect()
}

impl Function {
    fn of(self, values: &[f64]) -> f64 {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match self {
            Function::Abs => most.abs(),
            Function::Min => least,
            Function::Max => most,
            Function::Mean => values.iter().sum::<f64>() / values.len() as f64,
            Function::Spread => (most - least) / least,
            Function::Count => values.len() as f64,
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
    text: &'t str,
}

impl Reader<'_> {
    fn fault(&self, wanted: &str) -> String {
        let at = self.text.len() - self.rest.trim_start().len();
        format!("`{}`: expected {wanted} at character {}", self.text, at + 1)
    }

    fn eat(&mut self, token: char) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(token) {
            Some(after) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }

    fn sign(&mut self) -> Result<Sign, String> {
        let rest = self.rest.trim_start();
        for (text, sign) in [
            (">=", Sign::AtLeast),
            ("<=", Sign::AtMost),
            (">", Sign::Above),
            ("<", Sign::Below),
        ] {
            if let Some(after) = rest.strip_prefix(text) {
                self.rest = after;
                return Ok(sign);
            }
        }
        Err(self.fault("one of >=, <=, >, <"))
    }

    fn sum(&mut self) -> Result<Term, String> {
        self.chain(&['+', '-'], Reader::product)
    }

    fn product(&mut self) -> Result<Term, String> {
        self.chain(&['*', '/'], Reader::factor)
    }

    fn chain(
        &mut self,
        signs: &[char],
        part: impl Fn(&mut Self) -> Result<Term, String>,
    ) -> Result<Term, String> {
        let mut term = part(self)?;
        while let Some(sign) = signs.iter().copied().find(|sign| self.eat(*sign)) {
            let right = part(self)?;
            term = Term::Pair(Box::new(term), sign, Box::new(right));
        }
        Ok(term)
    }

    fn factor(&mut self) -> Result<Term, String> {
        if self.eat('-') {
            let inner = self.factor()?;
            return Ok(Term::Pair(Box::new(Term::Number(0.0)), '-', Box::new(inner)));
        }
        if self.eat('(') {
            let inner = self.sum()?;
            return if self.eat(')') {
                Ok(inner)
            } else {
                Err(self.fault("`)`"))
            };
        }
        let rest = self.rest.trim_start();
        let length = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        if word.is_empty() {
            return Err(self.fault("a number or a measure"));
        }
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            let number = word.parse().map_err(|_| self.fault("a number"))?;
            self.rest = after;
            return Ok(Term::Number(number));
        }
        self.rest = after;
        let function = match word {
            "abs" => Some(Function::Abs),
            "min" => Some(Function::Min),
            "max" => Some(Function::Max),
            "mean" => Some(Function::Mean),
            "spread" => Some(Function::Spread),
            "count" => Some(Function::Count),
            _ => None,
        };
        if let Some(function) = function
            && self.eat('(')
        {
            let inner = self.sum()?;
            return if self.eat(')') {
                Ok(Term::Call(function, Box::new(inner)))
            } else {
                Err(self.fault("`)`"))
            };
        }
        let mut labels = Labels::new();
        if self.eat('{') {
            let Some((inside, after)) = self.rest.split_once('}') else {
                return Err(self.fault("`}`"));
            };
            for pair in inside.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
                let Some((name, value)) = pair.split_once('=') else {
                    return Err(self.fault("label=value"));
                };
                labels.insert(name.trim().to_owned(), value.trim().to_owned());
            }
            self.rest = after;
        }
        Ok(Term::Measure(word.to_owned(), labels))
    }
}

#[cfg(test)]
mod tests;
