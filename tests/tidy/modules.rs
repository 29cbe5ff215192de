//! Which modules of a crate name which, read from `crate::` and `super::` paths, and where they name each other in a
//! circle. Only modules that stand directly below the root count: inside one, files may know each other. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

/// Module to the modules it names.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// The graph of a crate, from its files: path below `src` and text.
pub(crate) fn graph(files: &[(String, String)]) -> Graph {
    let only_tested = files
        .iter()
        .filter(|(path, _)| path == "lib.rs" || path == "main.rs")
        .flat_map(|(_, text)| declared_for_tests(text))
        .collect::<BTreeSet<String>>();
    let counts = |path: &str| {
        !matches!(path, "lib.rs" | "main.rs")
            && !path.split('/').any(|part| matches!(part, "tests" | "tests.rs"))
            && !only_tested.contains(module_of(path))
    };
    let files: Vec<_> = files.iter().filter(|(path, _)| counts(path)).collect();
    let modules: BTreeSet<&str> = files.iter().map(|(path, _)| module_of(path)).collect();
    let mut graph = Graph::new();
    for (path, text) in &files {
        let depth = path.split('/').count() - usize::from(path.ends_with("/mod.rs"));
        let from_root = ["crate::".to_owned(), "super::".repeat(depth)];
        let text = without_tests(text);
        let named = from_root.iter().flat_map(|prefix| named_after(&text, prefix));
        let others = named.filter(|name| modules.contains(&**name) && name != module_of(path));
        graph
            .entry(module_of(path).to_owned())
            .or_default()
            .extend(others);
    }
    graph
}

/// Groups of modules each of which leads to all others of its group, the largest first.
pub(crate) fn circles(graph: &Graph) -> Vec<BTreeSet<&str>> {
    let reached = |from: &str| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            for other in graph.get(module).into_iter().flatten() {
                if reached.insert(other.as_str()) {
                    next.push(other);
                }
            }
        }
        reached
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|module| (module.as_str(), reached(module)))
        .collect();
    let mut circles: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    for (module, reached) in &reach {
        let back = reached
            .iter()
            .filter(|other| reach.get(*other).is_some_and(|back| back.contains(module)));
        let circle: BTreeSet<&str> = back.copied().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// `cache/store.rs` belongs to `cache`.
fn module_of(path: &str) -> &str {
    let top = path.split('/').next().unwrap_or(path);
    top.strip_suffix(".rs").unwrap_or(top)
}

/// Modules that are declared under a `cfg` that names `test`.
fn declared_for_tests(root: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_tested = false;
    for line in root.lines().map(str::trim) {
        let declared = line.trim_start_matches("pub ").strip_prefix("mod ");
        match declared.and_then(|rest| rest.strip_suffix(';')) {
            Some(name) if is_tested => found.push(name.to_owned()),
            _ => {}
        }
        is_tested = match line.starts_with("#[") {
            true => is_tested || (line.starts_with("#[cfg(") && line.contains("test")),
            false => false,
        };
    }
    found
}

/// The text up to its tests, without comments.
fn without_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines();
    let code = lines.map(|line| line.split("//").next().unwrap_or(line));
    code.collect::<Vec<_>>().join("\n")
}

/// The names that follow a prefix: one, or those of a list in braces.
fn named_after(text: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices(prefix) {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || "_:".contains(c)) {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        match rest.strip_prefix('{') {
            None => names.push(identifier(rest)),
            Some(list) => names.extend(members(list)),
        }
    }
    names
}

fn identifier(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// The first name of each member of a list, up to its closing brace.
fn members(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut begins) = (0, true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && depth == 0 && !c.is_whitespace() => {
                names.push(identifier(&list[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn circles_are_found() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file(
            "lib.rs",
            "mod a;\nmod b;\nmod c;\n#[cfg(any(test, fuzzing))]\nmod only;\n",
        ),
        file("a.rs", "use crate::{b::{c, d}, other};\n// crate::c\n"),
        file(
            "b/mod.rs",
            "use super::c::X;\n#[cfg(test)]\nmod tests {\n    use crate::only;\n}\n",
        ),
        file("b/deep.rs", "fn f() { super::super::c::x() }"),
        file("c.rs", "fn f() { crate::a::f(); crate::c::g() }"),
        file("only.rs", "use crate::a;"),
        file("d.rs", "use crate::a;"),
    ];
    let graph = graph(&files);
    assert_eq!(circles(&graph), [BTreeSet::from(["a", "b", "c"])]);
    assert_eq!(graph["d"], BTreeSet::from(["a".to_owned()]));
    assert!(!graph.contains_key("only"));
}
