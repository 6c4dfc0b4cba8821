"""Logistic regression on the leaves of boosted trees (He et al., "Practical Lessons from Predicting Clicks on Ads at
Facebook", ADKDD 2014)."""
