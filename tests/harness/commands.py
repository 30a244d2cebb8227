"""Settings of the commands that tests start."""

#: A fifth less CPU time: the optimizing compiler never pays off in processes that live for seconds.
QUICK_JVM = {"STREAMLING__SPARK__CONF__spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
