# Fit latent classes by poLCA: Rscript polca.R codes.csv classes starts seed. Prints the log-likelihood and CPU seconds.
arguments <- commandArgs(trailingOnly = TRUE)
suppressMessages(library(poLCA))
codes <- read.csv(arguments[1])
set.seed(as.integer(arguments[4]))
formula <- as.formula(paste("cbind(", paste(names(codes), collapse = ","), ") ~ 1"))
began <- proc.time()
model <- poLCA(formula, codes, nclass = as.integer(arguments[2]), nrep = as.integer(arguments[3]), na.rm = FALSE,
               maxiter = 20000, tol = 1e-10, verbose = FALSE)
seconds <- sum((proc.time() - began)[1:2])
cat(format(model$llik, digits = 15), seconds, "\n")
