"""Tables of a survey: every question by a banner, with bases, intervals and significance, to sheets and pages."""
