//! The syntax of nginx's configuration: words, strings, blocks, includes. Knows no directive but `include`.

use crate::directive::Directive;
use crate::fate::Fate;
use crate::files::{DEPTH_MAX, Files, INCLUDES_MAX, Text};
use crate::report::{At, Report, Unreadable};
use std::sync::Arc;

/// Parses a file and all that it includes.
///
/// # Errors
/// The first mistake of syntax.
pub(super) fn parse(
    main: &Text,
    files: &dyn Files,
    report: &mut Report,
) -> Result<Vec<Directive>, Unreadable> {
    let mut reading = Reading {
        files,
        report,
        included: 0,
    };
    reading.file(main, 0)
}

struct Reading<'a> {
    files: &'a dyn Files,
    report: &'a mut Report,
    included: usize,
}

impl Reading<'_> {
    fn file(&mut self, file: &Text, depth: usize) -> Result<Vec<Directive>, Unreadable> {
        let mut tokens = Tokens {
            file: file.name.as_str().into(),
            rest: &file.text,
            line: 1,
        };
        let all = self.block(&mut tokens, depth)?;
        match tokens.next()? {
            None => Ok(all),
            Some(_) => Err(tokens.wrong("a `}` without its `{`")),
        }
    }

    /// Directives up to a closing brace or the end of the file.
    fn block(&mut self, tokens: &mut Tokens<'_>, depth: usize) -> Result<Vec<Directive>, Unreadable> {
        if depth > DEPTH_MAX {
            return Err(tokens.wrong(&format!("more than {DEPTH_MAX} levels of blocks and includes")));
        }
        let mut all = Vec::new();
        loop {
            let before = tokens.clone();
            let (name, line) = match tokens.next()? {
                None => return Ok(all),
                Some((Token::Close, _)) => {
                    *tokens = before;
                    return Ok(all);
                }
                Some((Token::Word(name), line)) => (name, line),
                Some((Token::End | Token::Open, _)) => return Err(tokens.wrong("a directive without a name")),
            };
            let mut directive = Directive {
                at: At {
                    file: Arc::clone(&tokens.file),
                    line,
                },
                name,
                args: Vec::new(),
                block: None,
            };
            loop {
                match tokens.next()? {
                    Some((Token::Word(word), _)) => directive.args.push(word),
                    Some((Token::End, _)) => break,
                    Some((Token::Open, _)) if directive.name.ends_with("_by_lua_block") => {
                        tokens.skip_code()?;
                        directive.block = Some(Vec::new());
                        break;
                    }
                    Some((Token::Open, _)) => {
                        directive.block = Some(self.block(tokens, depth + 1)?);
                        match tokens.next()? {
                            Some((Token::Close, _)) => break,
                            _ => return Err(tokens.wrong(&format!("the block of line {line} has no `}}`"))),
                        }
                    }
                    Some((Token::Close, _)) | None => {
                        return Err(tokens.wrong(&format!("`{}` of line {line} has no `;`", directive.name)));
                    }
                }
            }
            match directive.name.as_str() {
                "include" => match self.include(&directive, depth)? {
                    Some(found) => all.extend(found),
                    // What is in it is not known: the block around decides.
                    None => all.push(directive),
                },
                _ => all.push(directive),
            }
        }
    }

    /// The directives of included files; `None`: they cannot be read.
    fn include(&mut self, directive: &Directive, depth: usize) -> Result<Option<Vec<Directive>>, Unreadable> {
        let pattern = directive.arg(0);
        let shown = directive.shown();
        let name = pattern.rsplit('/').next().unwrap_or_default();
        if name == "mime.types" {
            let why = "Weir has a table of media types; `[types]` changes single ones";
            self.report.add(&directive.at, &shown, Fate::unneeded(why));
            return Ok(Some(Vec::new()));
        }
        let found = match self.files.read(pattern) {
            Ok(found) => found,
            // It has parameters, which replace those of the block around it.
            Err(_) if matches!(name, "fastcgi_params" | "fastcgi.conf") => {
                return Ok(Some(vec![Directive {
                    name: shown,
                    args: Vec::new(),
                    ..directive.clone()
                }]));
            }
            Err(why) => {
                let Some(fate) = well_known(name, &why) else {
                    return Ok(None);
                };
                self.report.add(&directive.at, &shown, fate);
                return Ok(Some(Vec::new()));
            }
        };
        self.included += found.len();
        if self.included > INCLUDES_MAX {
            return Err(Unreadable {
                file: directive.at.file.to_string(),
                line: directive.at.line,
                why: format!("more than {INCLUDES_MAX} included files"),
            });
        }
        self.report.add(&directive.at, &shown, Fate::Carried);
        let mut all = Vec::new();
        for file in &found {
            all.extend(self.file(file, depth + 1)?);
        }
        Ok(Some(all))
    }
}

/// The fate of a file that cannot be read, if its name says what is in it: those of nginx's packages and of Certbot.
fn well_known(name: &str, why: &str) -> Option<Fate> {
    match name {
        "uwsgi_params" | "scgi_params" | "proxy_params" => Some(Fate::missing(why)),
        "options-ssl-nginx.conf" => Some(Fate::unneeded(
            "Weir's TLS settings are safe by default; `crypto` selects others",
        )),
        _ => None,
    }
}

enum Token {
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

#[derive(Clone)]
struct Tokens<'t> {
    file: Arc<str>,
    rest: &'t str,
    line: usize,
}

impl Tokens<'_> {
    fn wrong(&self, why: &str) -> Unreadable {
        Unreadable {
            file: self.file.to_string(),
            line: self.line,
            why: why.to_owned(),
        }
    }

    fn bump(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn next(&mut self) -> Result<Option<(Token, usize)>, Unreadable> {
        loop {
            match self.rest.chars().next() {
                None => return Ok(None),
                Some(c) if c.is_whitespace() || c == '\u{feff}' => {
                    self.bump();
                }
                Some('#') => {
                    while self.rest.chars().next().is_some_and(|c| c != '\n') && self.bump().is_some() {}
                }
                Some(_) => break,
            }
        }
        let line = self.line;
        let token = match self.rest.chars().next() {
            Some(';') => Token::End,
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some(quote @ ('"' | '\'')) => {
                self.bump();
                return Ok(Some((Token::Word(self.quoted(quote)?), line)));
            }
            _ => return Ok(Some((Token::Word(self.word()), line))),
        };
        self.bump();
        Ok(Some((token, line)))
    }

    fn quoted(&mut self, quote: char) -> Result<String, Unreadable> {
        let began = self.line;
        let mut text = String::new();
        while let Some(c) = self.bump() {
            match c {
                c if c == quote => return Ok(text),
                '\\' => match self.bump() {
                    Some(c @ ('"' | '\'' | '\\')) => text.push(c),
                    Some('t') => text.push('\t'),
                    Some('n') => text.push('\n'),
                    Some('r') => text.push('\r'),
                    Some(c) => text.extend(['\\', c]),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Err(self.wrong(&format!("the string of line {began} has no end")))
    }

    fn word(&mut self) -> String {
        let mut text = String::new();
        let mut in_variable = false;
        while let Some(c) = self.rest.chars().next() {
            match c {
                '{' if text.ends_with('$') => in_variable = true,
                '}' if in_variable => in_variable = false,
                c if c.is_whitespace() || matches!(c, ';' | '{' | '}') => break,
                '\\' => {
                    // Words keep their backslashes: most are those of regular expressions.
                    text.push('\\');
                    self.bump();
                    if let Some(next) = self.bump() {
                        text.push(next);
                    }
                    continue;
                }
                _ => {}
            }
            text.push(c);
            self.bump();
        }
        text
    }

    /// Skips Lua up to the brace that closes it. Braces in its strings and comments are none.
    fn skip_code(&mut self) -> Result<(), Unreadable> {
        let began = self.line;
        let mut open = 1_usize;
        while let Some(c) = self.bump() {
            match c {
                '{' => open += 1,
                '}' => open -= 1,
                '"' | '\'' => self.skip_string(c),
                '-' if self.rest.starts_with('-') => {
                    self.bump();
                    if !(self.rest.starts_with('[') && self.bump().is_some() && self.skip_long()) {
                        while self.rest.chars().next().is_some_and(|c| c != '\n') && self.bump().is_some() {}
                    }
                }
                '[' => {
                    self.skip_long();
                }
                _ => {}
            }
            if open == 0 {
                return Ok(());
            }
        }
        Err(self.wrong(&format!("the block of line {began} has no `}}`")))
    }

    /// Skips a string of Lua up to its quote. One without ends with its line.
    fn skip_string(&mut self, quote: char) {
        while let Some(c) = self.bump() {
            match c {
                '\\' => {
                    self.bump();
                }
                c if c == quote || c == '\n' => return,
                _ => {}
            }
        }
    }

    /// Skips what `[[` or `[==[` begins, behind its first bracket, up to `]]` or `]==]`. False, and nothing skipped: no such text
    /// begins here.
    fn skip_long(&mut self) -> bool {
        let marks = self.rest.bytes().take_while(|b| *b == b'=').count();
        if !self.rest[marks..].starts_with('[') {
            return false;
        }
        let end = format!("]{}]", "=".repeat(marks));
        let length = self.rest.find(&end).map_or(self.rest.len(), |at| at + end.len());
        self.line += self.rest[..length].matches('\n').count();
        self.rest = &self.rest[length..];
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::Dialect;
    use crate::fidelity::converted;

    #[test]
    fn braces_in_strings_and_comments_of_lua_are_none() {
        for code in [
            "return '}' .. \"{\" .. \"\\\"}\"",
            "local a = {} -- not this }\nreturn a",
            "--[[ } \n } ]] return 1",
            "--[==[ } ]] } ]==] return 1",
            "local a = [[ } ]] .. [=[ }}\n ]=]\nreturn b[1]",
        ] {
            let text = format!(
                "server {{ listen 80; location /a/ {{ content_by_lua_block {{ {code}\n}} }}\nroot /srv/a; }}\n"
            );
            let found = converted(Dialect::Nginx, &text);
            assert!(found.toml.contains("root = \"/srv/a\""), "{code}: {}", found.toml);
            let line = text.lines().count();
            assert!(
                found.report.notes().iter().any(|note| note.line == line),
                "{code}: {:?}",
                found.report
            );
        }
    }
}
