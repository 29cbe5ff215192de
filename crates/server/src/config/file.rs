//! How a configuration is read from its file: on a preset, above a profile and below the flags. Which values are valid is
//! decided in [`super::validity`].

use super::{Config, ConfigError, Knob, Listen, Preset, Tuned, preset};
use serde::de;

impl Config {
    /// Reads and validates a configuration. `text` is the content of a TOML file, `name` its name in errors.
    ///
    /// # Errors
    /// The first mistake, with file, line, key and the nearest valid key or value.
    pub fn from_toml(text: &str, name: &str) -> Result<Config, ConfigError> {
        Config::from_toml_on(None, text, name)
    }

    /// As [`Config::from_toml`], on top of a preset: `preset`, or that of the file if it is `None`.
    ///
    /// # Errors
    /// As [`Config::from_toml`].
    pub fn from_toml_on(preset: Option<Preset>, text: &str, name: &str) -> Result<Config, ConfigError> {
        Config::from_toml_above(preset, None, &toml::Table::new(), text, name)
    }

    /// As [`Config::from_toml_on`], with a profile beneath everything. `said` holds the settings from flags and the
    /// environment, which override the file. They are not put into the result, but preset and profile lose the keys
    /// that conflict with them.
    ///
    /// # Errors
    /// As [`Config::from_toml`].
    pub fn from_toml_above(
        preset: Option<Preset>,
        tuned: Option<&Tuned>,
        said: &toml::Table,
        text: &str,
        name: &str,
    ) -> Result<Config, ConfigError> {
        let wrong = |e: &toml::de::Error| ConfigError::from_toml(e, text, name);
        let mut config: Config = toml::from_str(text).map_err(|e| wrong(&e))?;
        let mut table = text.parse::<toml::Table>().map_err(|e| wrong(&e))?;
        let preset = preset.or(config.preset);
        if preset.is_some() || tuned.is_some() {
            let mut merged = tuned.map_or_else(toml::Table::new, |tuned| tuned.serve.clone());
            if let Some(preset) = preset {
                let table = preset.text().parse::<toml::Table>().map_err(|e| wrong(&e))?;
                preset::make_way(&mut merged, &table);
                merged = preset::on_top(table, merged);
            }
            let above = table;
            preset::make_way(&mut merged, &preset::on_top(said.clone(), above.clone()));
            table = preset::on_top(above, merged);
            // By way of a text: reading from tables would be a second copy of all that reads from texts, a tenth of
            // this crate. Its lines are not those of the file, so an error names none.
            config =
                toml::from_str(&table.to_string()).map_err(|e| wrong(&de::Error::custom(e.message())))?;
            config.preset = preset;
        }
        config.say(|(within, key)| {
            let inner = match within {
                "" => Some(&table),
                name => table.get(name).and_then(toml::Value::as_table),
            };
            inner.is_some_and(|inner| inner.contains_key(key))
        });
        if table.contains_key("listener") && !table.contains_key("listen") {
            config.listen = Listen(Vec::new());
        }
        config.validate().map_err(|e| e.locate(text, name))?;
        Ok(config)
    }

    /// Marks a knob as set if `is_said` holds for one of its keys, given as (table, key).
    pub fn say(&mut self, is_said: impl Fn((&str, &str)) -> bool) {
        let said = |knob: &Knob| self.said.contains(knob) || knob.keys().iter().any(|key| is_said(*key));
        self.said = Knob::ALL.into_iter().filter(said).collect();
    }
}
