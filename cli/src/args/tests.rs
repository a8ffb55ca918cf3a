use clap::CommandFactory;

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_flag_has_the_environment_variable_of_its_name() {
    fn check(command: &clap::Command) {
        for arg in command.get_arguments() {
            let Some(long) = arg.get_long().filter(|long| !matches!(*long, "help" | "version")) else {
                continue;
            };
            let want = format!("WADI_{}", long.replace('-', "_").to_uppercase());
            let got = arg.get_env().and_then(|e| e.to_str());
            assert_eq!(got, Some(want.as_str()), "--{long} of {}", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }
    check(&Cli::command());
}
