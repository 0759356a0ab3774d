"""Those who follow committed events at their own pace: statistics, webhooks, e-mail about alerts."""
