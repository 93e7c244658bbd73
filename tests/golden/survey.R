# What R's survey package says of the sample that survey_sample.py writes: standard errors of two-way shares, Rao and
# Scott's test of independence, and their test of given shares. See survey_sample.py for the command.
suppressMessages(library(survey))
d <- read.csv(commandArgs(TRUE)[1], na.strings = "")
d$trust <- factor(d$trust, c("high", "low", "middle")); d$vote <- factor(d$vote)
repw <- as.matrix(d[grep("^repw", names(d))])
n <- c(north = 6, south = 5, west = 4)
scales <- rep((n - 1) / n, n)
designs <- list(
  weights = svydesign(id = ~1, weights = ~weight, data = d),
  strata = svydesign(id = ~1, strata = ~region, weights = ~weight, data = d),
  units = svydesign(id = ~interaction(region, town), weights = ~weight, data = d),
  both = svydesign(id = ~town, strata = ~region, weights = ~weight, data = d, nest = TRUE),
  finite = svydesign(id = ~town, strata = ~region, weights = ~weight, fpc = ~size, data = d, nest = TRUE),
  jackknife = svrepdesign(data = d, weights = ~weight, repweights = repw, type = "other", scale = 1, rscales = scales,
    combined.weights = TRUE, mse = TRUE))
numbers <- function(x) paste0("[", paste(sprintf("%.12g", x), collapse = ", "), "]")
shown <- sapply(names(designs), function(name) {
  s <- designs[[name]]
  m <- svymean(~interaction(vote, trust), s, na.rm = TRUE)  # as rows: trust, as columns: vote
  x <- svychisq(~trust + vote, s)
  by <- svyby(~vote, ~trust, subset(s, !is.na(vote) & !is.na(trust)), svymean, covmat = TRUE)
  gap <- svycontrast(by, list(gap = c("high:voteyes" = 1, "low:voteyes" = -1)))
  given <- svygofchisq(~trust, c(0.3, 0.45, 0.25), s, na.rm = TRUE)
  l <- given$lambda
  yes <- SE(svymean(~vote, s, na.rm = TRUE))[2]
  north <- svychisq(~trust + vote, subset(s, region == "north"))
  format <- paste0('  "%s": {"shares": %s, "errors": %s, "test": %s, "gap": %s, "given": %s, "yes": %.12g, ',
    '"yes_by_trust": %s, "north": %s}')
  sprintf(format, name, numbers(coef(m)),
    numbers(SE(m)), numbers(c(x$statistic, x$parameter, x$p.value)), numbers(c(coef(gap), SE(gap))),
    numbers(c(given$statistic / sum(l), sum(l)^2 / sum(l^2))), yes, numbers(SE(by)[, 2]),
    numbers(c(north$statistic, north$parameter, north$p.value)))
})
cat("{\n", paste(shown, collapse = ",\n"), "\n}\n", sep = "")
