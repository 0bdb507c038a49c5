//! The policies by name: what users, programs and replays choose from.

use std::fmt;
use std::str::FromStr;

use super::EvictionPolicy;
use super::lru::Lru;
use super::monetdb::MonetDb;
use super::proteus::Proteus;
use super::recache::ReCache;
use super::recache_as_printed::ReCacheAsPrinted;
use super::vectorwise::Vectorwise;

/// Which cached items make room for others when memory is short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyName {
    /// Those that save least query time for their bytes (ReCache, Algorithm 1, corrected).
    #[default]
    ReCache,
    /// The same, to the letter of the paper: a baseline.
    ReCacheAsPrinted,
    /// Those not used for longest.
    LeastRecentlyUsed,
    /// Those not used for longest, but all that came from CSV before any that came from JSON.
    Proteus,
    /// Those of the least cost times uses over size, older uses counting less (Vectorwise's recycler).
    Vectorwise,
    /// Those outside of the most valuable knapsack of cost times reuses (MonetDB's recycler).
    MonetDb,
}

impl PolicyName {
    /// Every policy, the default first.
    pub const ALL: [Self; 6] = [
        Self::ReCache,
        Self::ReCacheAsPrinted,
        Self::LeastRecentlyUsed,
        Self::Proteus,
        Self::Vectorwise,
        Self::MonetDb,
    ];

    /// The policy of this name.
    pub fn policy(self) -> &'static dyn EvictionPolicy {
        match self {
            Self::ReCache => &ReCache,
            Self::ReCacheAsPrinted => &ReCacheAsPrinted,
            Self::LeastRecentlyUsed => &Lru,
            Self::Proteus => &Proteus,
            Self::Vectorwise => &Vectorwise,
            Self::MonetDb => &MonetDb,
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy().name())
    }
}

/// No policy has the name. Its text lists those there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPolicy {
    /// The name as it was given.
    pub name: String,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = PolicyName::ALL.iter().map(|name| name.policy().name()).collect();
        write!(f, "there is no eviction policy '{}'; the policies are {}", self.name, known.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

/// By the name that [`EvictionPolicy::name`] gives, in any case.
impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let wanted = text.trim();
        Self::ALL
            .into_iter()
            .find(|name| name.policy().name().eq_ignore_ascii_case(wanted))
            .ok_or_else(|| UnknownPolicy { name: text.to_string() })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_own_name_alone() {
        for name in PolicyName::ALL {
            let text = name.to_string();
            assert_eq!(text.parse(), Ok(name));
            assert_eq!(text.to_uppercase().parse(), Ok(name));
            assert_eq!(PolicyName::ALL.iter().filter(|other| other.to_string() == text).count(), 1);
        }
        assert_eq!(PolicyName::ALL[0], PolicyName::default());
        let message = "mru".parse::<PolicyName>().unwrap_err().to_string();
        assert!(message.contains("'mru'") && message.contains("recache-as-printed, lru"), "{message}");
    }
}
